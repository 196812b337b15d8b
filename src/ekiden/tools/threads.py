"""Threads for sync functions: one for each call under way, and none that anybody waits for.

An event loop's own executor is no place for a function that may hang. It has a few threads, so that
some hung calls keep every other call waiting, and the end of the loop waits for all of them. Here a
call never queues behind another, and the threads are daemons: neither a loop nor the process waits
for a call that was given up.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

from ekiden.tools.under_way import current_call

_MAX_IDLE = 32
"""More threads than this end when their call does."""

_ThreadJob: TypeAlias = Callable[[], None]
_Ended: TypeAlias = asyncio.Future[tuple[Any, BaseException | None]]

_idle: list[SimpleQueue[_ThreadJob]] = []
"""The doors of the threads that have nothing to do; the one used last is taken first."""
_numbers = itertools.count(1)


async def in_thread(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What ``func(*args, **kwargs)`` gives or raises, run in a thread with the same context
    variables.

    A cancelled wait leaves the call alone: a thread cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    ended: _Ended = loop.create_future()
    call = partial(copy_context().run, func, *args, **kwargs)
    is_over = None
    if (under_way := current_call()) is not None:
        is_over = partial(under_way.end_part, under_way.begin_part())
    _start(partial(_make, call, loop, ended, is_over))
    value, failure = await ended
    if failure is None:
        return value
    try:
        raise failure
    finally:
        del failure, ended  # its traceback has this frame: they would keep each other alive


def _make(
    call: Callable[[], Any],
    loop: asyncio.AbstractEventLoop,
    ended: _Ended,
    is_over: Callable[[], None] | None,
) -> None:
    value: Any = None
    failure: BaseException | None = None
    try:
        value = call()
    except BaseException as exc:
        failure = exc
    if is_over is not None:
        is_over()
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_settle, ended, value, failure)
    del failure, ended


def _settle(ended: _Ended, value: Any, failure: BaseException | None) -> None:
    if not ended.done():
        ended.set_result((value, failure))


def _start(job: _ThreadJob) -> None:
    try:
        door = _idle.pop()
    except IndexError:
        door = SimpleQueue()
        name = f"ekiden-tool-{next(_numbers)}"
        threading.Thread(target=_serve, args=(door,), name=name, daemon=True).start()
    door.put(job)


def _serve(door: SimpleQueue[_ThreadJob]) -> None:
    while True:
        job = door.get()
        job()
        del job
        if len(_idle) >= _MAX_IDLE:
            return
        _idle.append(door)


if hasattr(os, "register_at_fork"):
    # A child of a fork has none of its parent's threads.
    os.register_at_fork(after_in_child=_idle.clear)
