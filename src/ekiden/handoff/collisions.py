"""Tools and handoffs are one list to the model: each name may be in it once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from ekiden.core.errors import UserError
from ekiden.core.handoff import Handoff, transfer_tool_name
from ekiden.core.tool import Tool

AnyHandoff: TypeAlias = Handoff[Any, Any]
CollisionPolicy: TypeAlias = Literal["error", "warn"]

_T = TypeVar("_T", bound="Tool | AnyHandoff")
_log = logging.getLogger("ekiden.handoff")


def resolve_tool_name_collisions(
    tools: Sequence[Tool],
    handoffs: Sequence[AnyHandoff],
    *,
    collision_policy: CollisionPolicy = "error",
) -> tuple[list[Tool], list[AnyHandoff]]:
    """The tools and handoffs as they may be shown to a model, in order.

    When a name is used twice, ``error`` raises `UserError`; ``warn`` logs it and keeps the last.
    """
    last: dict[str, Tool | AnyHandoff] = {}
    shown: list[Tool | AnyHandoff] = [*tools, *handoffs]
    for entry in shown:
        other = last.get(_name(entry))
        if other is not None:
            problem = _describe(other, entry)
            if collision_policy == "error":
                raise UserError(problem)
            _log.warning("%s The last one is used.", problem)
        last[_name(entry)] = entry
    return _kept(tools, last), _kept(handoffs, last)


def _kept(entries: Sequence[_T], last: dict[str, Tool | AnyHandoff]) -> list[_T]:
    return [entry for entry in entries if last[_name(entry)] is entry]


def _name(entry: Tool | AnyHandoff) -> str:
    return entry.tool_name if isinstance(entry, Handoff) else entry.name


def _describe(first: Tool | AnyHandoff, second: Tool | AnyHandoff) -> str:
    name = _name(second)
    if not isinstance(second, Handoff):
        return f"Ambiguous tool configuration: tool name `{name}` is used by multiple tools."
    if not isinstance(first, Handoff):
        return (
            f"Ambiguous tool configuration: tool name `{name}` is also the name of the handoff to "
            f"{second.agent_name!r}. Rename the tool, or pass `tool_name_override=` to `handoff`."
        )
    if first.agent_name != second.agent_name and _is_derived(first) and _is_derived(second):
        return (
            f"Ambiguous handoff configuration: agents {first.agent_name!r} and "
            f"{second.agent_name!r} both derive the handoff tool name `{name}`. "
            "Pass an explicit `tool_name_override=` to one of them."
        )
    return (
        f"Ambiguous handoff configuration: handoff tool name `{name}` is used by multiple "
        "handoffs. Give each its own name with `tool_name_override=`."
    )


def _is_derived(entry: AnyHandoff) -> bool:
    return entry.tool_name == transfer_tool_name(entry.agent_name)
