"""Which tools and handoffs an agent has now."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from ekiden.core.context import RunContextWrapper
from ekiden.core.handoff import Handoff
from ekiden.core.tool import Tool

_T = TypeVar("_T", bound="Tool | Handoff[Any, Any]")


async def enabled(entries: Sequence[_T], agent: Any, context: RunContextWrapper[Any]) -> list[_T]:
    """Those of `entries` whose `is_enabled` says yes, in order; all are asked side by side.

    If one check raises, the others are cancelled and its error is raised.
    """
    if all(entry.is_enabled is True for entry in entries):
        return list(entries)
    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(is_enabled(entry, agent, context)) for entry in entries]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [entry for entry, answer in zip(entries, asked, strict=True) if answer.result()]


async def is_enabled(
    entry: Tool | Handoff[Any, Any], agent: Any, context: RunContextWrapper[Any]
) -> bool:
    """Whether `entry` is offered to `agent` now."""
    answer: bool | Awaitable[bool] = (
        entry.is_enabled(context, agent) if callable(entry.is_enabled) else entry.is_enabled
    )
    return bool(await answer) if inspect.isawaitable(answer) else bool(answer)
