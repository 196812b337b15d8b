"""A worker process: its signals and its shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ekiden.project.worker import Workforce


_TASKS_S = 1.0
_THREADS_S = 1.0
"""How long tasks, and then threads, may take to end."""
_LOOK_EVERY_S = 0.02


def rest_collector() -> None:
    """Exclude the objects of the start from garbage collection, and collect less often: reference
    counting frees nearly everything of a session."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def end_for_sure() -> None:
    """The last call of a command: wait for tasks and threads to end, or end the process without
    them.

    Tasks that ignore cancellation, and threads that keep working, could block the exit. Their work
    is not lost: others take over their sessions when the leases expire.
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
    """End the process at once, without cleanup."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def _is_busy(thread: threading.Thread) -> bool:
    """Whether the interpreter would wait for it."""
    return thread.is_alive() and not thread.daemon and thread is not threading.main_thread()


_LEAVING_S = 5.0
"""How long cancelled work may take to end; afterwards its leases must expire."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_until_signal(
    workforce: Workforce, *, until_idle: bool, grace_s: float, ready: Callable[[], None]
) -> bool:
    """Work until nothing is left, or until SIGTERM or SIGINT; returns whether it was a signal.

    After a signal it takes no more work. Sessions unfinished after `grace_s` seconds, or at a
    second signal, are cancelled and left ready. If even that hangs, the process is ended.
    """
    told = asyncio.Queue[None]()
    with on_signals(lambda: told.put_nowait(None)):
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
def on_signals(
    call: Callable[[], None], numbers: Sequence[signal.Signals] = _SIGNALS
) -> Iterator[None]:
    """Call this for each of the signals while the body runs."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        # Windows has no such handlers, nor has a thread other than the main one.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in numbers:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)
