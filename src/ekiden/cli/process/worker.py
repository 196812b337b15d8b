"""A worker process: its signals and its shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ekiden.project.worker import Workforce


_TASKS_S = 1.0
_THREADS_S = 1.0
"""How long tasks, and then threads, may take to end."""
_LOOK_EVERY_S = 0.02


def rest_collector() -> None:
    """Let the garbage collector leave alone what the process was started with, and look less often:
    nearly all that a session leaves behind is freed without it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def end_for_sure() -> None:
    """As the last thing that a command does: let what is left end, or end the process without it.

    Tasks that ignore cancellation, and threads that work on, would hold it up for as long as they
    like. What they do is not lost: their sessions are taken over when their leases have run out.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=_TASKS_S)
        if left:
            end_at_once()
    loop = asyncio.get_running_loop()
    # Never cancelled: that would wait for the threads.
    await asyncio.wait({asyncio.create_task(loop.shutdown_default_executor())}, timeout=_THREADS_S)
    deadline = loop.time() + _THREADS_S
    while any(_is_busy(each) for each in threading.enumerate()):
        if loop.time() >= deadline:
            end_at_once()
        await asyncio.sleep(_LOOK_EVERY_S)


def end_at_once() -> None:
    """End the process without asking anybody."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def _is_busy(thread: threading.Thread) -> bool:
    """Whether the interpreter would wait for it."""
    return thread.is_alive() and not thread.daemon and thread is not threading.main_thread()


_LEAVING_S = 5.0
"""How long what was cancelled may take to end; then its leases have to run out."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_until_signal(
    workforce: Workforce, *, until_idle: bool, grace_s: float, ready: Callable[[], None]
) -> bool:
    """Work until there is nothing left to do, or until SIGTERM or SIGINT; whether it was a signal.

    Then nothing more is taken; what is not over after `grace_s` seconds, or at a second signal, is
    cancelled and left ready. A process that cannot even leave then is ended.
    """
    told = asyncio.Queue[None]()
    with _signals(lambda: told.put_nowait(None)):
        working = asyncio.create_task(workforce.run(until_idle=until_idle, ready=ready))
        first = asyncio.create_task(told.get())
        await asyncio.wait({working, first}, return_when=asyncio.FIRST_COMPLETED)
        was_told = not working.done()
        if was_told:
            workforce.stop()
            second = asyncio.create_task(told.get())
            await asyncio.wait(
                {working, second}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            second.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=_LEAVING_S)
            if not working.done():
                end_at_once()
        first.cancel()
        with suppress(asyncio.CancelledError):
            await working
    return was_told


@contextmanager
def _signals(told: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in _SIGNALS:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)
