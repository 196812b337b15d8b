"""Threads of the store's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T], *, name: str) -> T:
    """The result of `work`, which blocks, from a thread made for it.

    The threads of `asyncio.to_thread` are shared with the program's tools, which may hang in all of
    them. If the caller is cancelled, the work goes on to its end.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    # Taken out when it is run: a thread that has told its result holds nobody's store any more.
    todo = [work]

    def run() -> None:
        try:
            result = todo.pop()()
        except BaseException as exc:
            done.set_exception(exc)
        else:
            done.set_result(result)

    threading.Thread(target=run, name=name).start()
    return await asyncio.wrap_future(done)
