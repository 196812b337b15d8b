"""Kinds that keys in several places have."""

from __future__ import annotations

from ekiden.agents.checks import template_fault
from ekiden.agents.objects import Field, ListOf, Object
from ekiden.core.kinds import Number, Text

_YEAR_S = 365 * 24 * 3600
_MAX_TOKENS = 1_000_000_000_000
_MAX_MONEY = 1_000_000_000

SECONDS = Number(low=0, high=_YEAR_S, above_low=True)

QUESTION = Text(
    strip=False,
    check=template_fault,
    code="bad_template",
    in_schema={"pattern": r"^(?:[^{}]|\{tool_name\}|\{tool_args\})+$"},
)
"""What a person is asked before something is done."""

CAPABILITIES = ListOf(
    item=Text(what="the name of a capability, as a text", max_length=200),
    wanted="a list of names, such as [refunds, python]",
)
"""Names of what somebody must be able to do."""

BUDGET = Object(
    Field(
        name="tokens",
        kind=Number(low=0, high=_MAX_TOKENS, above_low=True, whole=True),
        text="Tokens of all model calls.",
        example=20_000,
    ),
    Field(name="seconds", kind=SECONDS, text="Seconds of work; waiting for people is not counted."),
    Field(
        name="money",
        kind=Number(low=0, high=_MAX_MONEY, above_low=True),
        text="In the currency of the prices that the run is given.",
    ),
    wanted="a mapping with tokens, seconds, money",
)
"""What somebody may spend."""
