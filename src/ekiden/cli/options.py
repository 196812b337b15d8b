"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

StoreOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--store",
        env_var="EKIDEN_STORE",
        help="Where sessions are kept: a path, sqlite:///path, postgresql://… or memory:; "
        "else the setting `store`, which is .ekiden/ekiden.db.",
    ),
]
TeamOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--team", help="The team, as module:attribute, instead of the project's agent files."
    ),
]
StrategyOption: TypeAlias = Annotated[
    Literal["rule", "semantic", "llm", "hybrid"] | None,
    Parameter(name="--strategy", help="How an agent is chosen; else as the settings say."),
]
ModelOption: TypeAlias = Annotated[
    str | None,
    Parameter(name="--model", help="The model, as provider:model, instead of the agents' own."),
]
AllowOption: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--allow",
        negative="",
        show_default=False,
        help="A tool that may run without asking; * is any. May be given more than once.",
    ),
]
ApproveOption: TypeAlias = Annotated[
    Literal["terminal", "inbox"],
    Parameter(
        name="--approve",
        help="Who is asked about tools that need a yes: whoever sits here, or the people who look "
        "into the inbox, for whom the session then waits.",
    ),
]
KeepGoingOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--keep-going",
        negative="",
        show_default=False,
        help="Leave out agent files that have errors, instead of stopping.",
    ),
]
TrustOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--trust",
        negative="",
        show_default=False,
        help="Trust the files of this folder, this once, without asking; or set EKIDEN_TRUST=1.",
    ),
]
UserOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--user",
        help="For whom: a new session is this user's, and so is what its agents remember; else "
        "the setting `user`.",
    ),
]
MoreWords: TypeAlias = Annotated[str, Parameter(show=False)]
"""Further words where one text belongs: taken in order to explain what is wrong."""
JsonOption: TypeAlias = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")
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
WaitOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--wait",
        negative="",
        show_default=False,
        help="If the session has to wait for people, stay, and go on when they have answered.",
    ),
]
WaitTimeoutOption: TypeAlias = Annotated[
    float | None,
    Parameter(
        name="--wait-timeout",
        validator=Number(gt=0, lte=1e9),
        help="The same, at most so many seconds for each answer.",
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

JsonLinesOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--json-lines",
        negative="",
        show_default=False,
        help="Print one JSON object per line.",
    ),
]

STORE: str | None = None
TEAM: str | None = None
LimitOption: TypeAlias = Annotated[
    int, Parameter(name="--limit", validator=Number(gte=1, lte=1000), help="How many.")
]
CursorOption: TypeAlias = Annotated[
    str | None, Parameter(name="--cursor", help="Go on where the last page ended.")
]
LabelOption: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--label",
        negative="",
        show_default=False,
        help="What this place has, such as gpu, for agents that need it. May be given more than "
        "once.",
    ),
]
LogOption: TypeAlias = Annotated[
    Literal["text", "json", "none"],
    Parameter(name="--log", help="How the log is written, on standard error."),
]
