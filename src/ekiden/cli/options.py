"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.app.defaults import DEFAULT_STORE, DEMO_TEAM

StoreOption: TypeAlias = Annotated[
    str,
    Parameter(
        name="--store",
        env_var="EKIDEN_STORE",
        help="Where sessions are kept: a path, sqlite:///path, postgresql://… or memory:",
    ),
]
TeamOption: TypeAlias = Annotated[
    str, Parameter(name="--team", help="The team, as module:attribute.")
]
JsonOption: TypeAlias = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")
]
MaxTurnsOption: TypeAlias = Annotated[
    int | None,
    Parameter(name="--max-turns", validator=Number(gte=1), help="Stop after this many turns."),
]
NoWaitOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--no-wait",
        negative="",
        show_default=False,
        help="If another process has the session, fail at once.",
    ),
]
StreamOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--stream",
        negative="",
        show_default=False,
        help="Show what happens as it happens; with --json as one object per line.",
    ),
]

STORE = DEFAULT_STORE
TEAM = DEMO_TEAM
