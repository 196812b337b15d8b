"""A worker as a process: its signals, and its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ekiden.cli.ending import end_at_once

if TYPE_CHECKING:
    from ekiden.app.working import Workforce

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
