"""Kinds that keys in several places have."""

from __future__ import annotations

from ekiden.agents.checks import template_fault
from ekiden.agents.kinds import Number, Text
from ekiden.agents.objects import ListOf

_YEAR_S = 365 * 24 * 3600

SECONDS = Number(low=0, high=_YEAR_S, above_low=True)

QUESTION = Text(
    strip=False,
    check=template_fault,
    code="bad_template",
    in_schema={"pattern": r"^(?:[^{}]|\{tool_name\}|\{tool_args\})+$"},
)
"""What a person is asked before something is done."""

CAPABILITIES = ListOf(
    item=Text(wanted="the name of a capability, as a text", max_length=200),
    wanted="a list of names, such as [refunds, python]",
)
"""Names of what somebody must be able to do."""
