"""The end of a process that was told to end: code of the team does not hold it up."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress

_TASKS_S = 1.0
_THREADS_S = 1.0
"""How long tasks, and then threads, may take to end."""
_LOOK_EVERY_S = 0.02


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
