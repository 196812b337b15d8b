"""Calls of user code, which may be sync or async, and awaiting that survives cancellation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def settled(value: Any) -> Any:
    """`value`, awaited if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def to_the_end(work: Awaitable[T]) -> tuple[T, asyncio.CancelledError | None]:
    """Await `work` to its end, even if this task is cancelled meanwhile.

    Returns the result and the cancellation, which the caller must raise. If `work` fails, its
    exception is raised, or, if this task was cancelled, the cancellation with the exception as its
    cause. Pass a future if possible: a coroutine needs a task, which takes ten times as long.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        waiter = asyncio.get_running_loop().create_future()
        task.add_done_callback(partial(_wake, waiter))  # `asyncio.wait` takes four times as long.
        try:
            await waiter
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None and not task.cancelled() and task.exception() is not None:
        raise cancelled from task.exception()
    return task.result(), cancelled


def _wake(waiter: asyncio.Future[None], _: asyncio.Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def both(first: Awaitable[None] | None, second: Awaitable[None] | None) -> None:
    """Await both hooks concurrently, or the only one. The failure of one cancels the other."""
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
