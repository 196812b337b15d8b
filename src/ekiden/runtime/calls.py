"""Calling what the user wrote: sync or async alike."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any


async def settled(value: Any) -> Any:
    """`value`, awaited if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def both(first: Awaitable[None] | None, second: Awaitable[None] | None) -> None:
    """Await the hooks there are, side by side when there are two; one's failure stops the other."""
    if first is None:
        if second is not None:
            await second
        return
    if second is None:
        await first
        return
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_as_coroutine(first))
            group.create_task(_as_coroutine(second))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable
