"""Handoffs as agent files declare them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.core.handoff import Handoff
from ekiden.core.suggest import suggestion
from ekiden.handoff.filters import (
    HandoffFilter,
    compose,
    keep_first_and_last,
    keep_last,
    remove_all_tools,
    shorten_tool_outputs,
)

_FILTER = re.compile(r"\s*(?P<name>[a-z_]+)\s*(?:\((?P<numbers>[\d\s,]*)\))?\s*")
_MAKERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "keep_first_and_last": (keep_first_and_last, (2,)),
    "keep_last": (keep_last, (1,)),
    "remove_all_tools": (lambda: remove_all_tools, (0,)),
    "shorten_tool_outputs": (shorten_tool_outputs, (0, 1)),
}
"""How each filter is made, and from how many numbers."""

_WORDS = {
    "reason": ("string", "Why the conversation is handed over, in one sentence."),
    "context": (["string", "null"], "What the agent needs to know and cannot see."),
    "summary": (["string", "null"], "What was said and done so far, in short."),
}


def declared_handoff(
    agent: Agent[Any],
    *,
    description: str | None = None,
    include_context: bool = True,
    filters: Sequence[str] = (),
) -> Handoff[Any, Agent[Any]]:
    """A handoff to `agent` whose tool takes a reason, and perhaps a context and a summary.

    `filters` are ready ones by name, such as ``keep_last(20)``, applied in order; `UserError` for
    one that does not exist.
    """

    async def arrive(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        return agent

    told = Handoff.default_tool_description(agent)
    return Handoff(
        tool_name=Handoff.default_tool_name(agent),
        tool_description=told if description is None else f"{told} Use it: {description}",
        input_json_schema={
            "type": "object",
            "properties": {
                name: {"type": kind, "description": text} for name, (kind, text) in _WORDS.items()
            },
            "required": list(_WORDS),
            "additionalProperties": False,
        },
        on_invoke_handoff=arrive,
        agent_name=agent.name,
        agent=agent,
        input_filter=compose(*map(parse_filter, filters)) if filters else None,
        include_context=include_context,
        has_callback=False,
    )


def parse_filter(text: str) -> HandoffFilter:
    """The ready filter that `text` names; `UserError`."""
    found = _FILTER.fullmatch(text)
    name = text.strip() if found is None else found["name"]
    if found is None or name not in _MAKERS:
        raise UserError(
            f"there is no filter {name[:80]!r}, known: {', '.join(_MAKERS)}"
            f"{suggestion(name, _MAKERS)}"
        )
    maker, counts = _MAKERS[name]
    numbers = [int(number) for number in re.findall(r"\d{1,9}", found["numbers"] or "")]
    if len(numbers) not in counts:
        wanted = " or ".join(map(str, counts))
        raise UserError(f"filter {name!r} takes {wanted} numbers in brackets, not {len(numbers)}")
    made: HandoffFilter = maker(*numbers)
    return made
