"""Ctrl-C and termination signals during a chat."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")

_TO_END = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """SIGINT ends the current action; SIGTERM and SIGHUP end the chat.

    A turn that ends like this is suspended: its session is free and can be resumed. Without
    `stops_turns`, as in a pipe, SIGINT also ends the chat.
    """

    def __init__(self, *, stops_turns: bool) -> None:
        self.ended_by: int | None = None
        """The signal that ended the chat."""
        self.when_idle: Callable[[], None] | None = None
        """Called for a SIGINT while nothing runs."""
        self._stops_turns = stops_turns
        self._main: asyncio.Task[object] | None = None
        self._work: asyncio.Task[Any] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals while the body runs, in the task that runs it."""
        loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        handled: list[int] = []
        # Windows has no such handlers: Ctrl-C ends the chat there.
        with suppress(NotImplementedError):
            for number in _TO_END:
                loop.add_signal_handler(number, self._end, number)
                handled.append(number)
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            handled.append(signal.SIGINT)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    @contextmanager
    def stopping(self, work: asyncio.Task[Any]) -> Iterator[None]:
        """While the body runs, Ctrl-C cancels `work`, and nothing that waits for it."""
        outer, self._work = self._work, work
        try:
            yield
        finally:
            self._work = outer

    async def stoppable(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`; `None` if Ctrl-C stopped it. When cancelled, it ends the work
        first."""
        task = asyncio.create_task(work)
        try:
            with self.stopping(task):
                await asyncio.wait({task})
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    def stop_turn(self) -> None:
        """Stop the turn, like Ctrl-C."""
        if self._work is not None:
            self._work.cancel()

    def _interrupt(self) -> None:
        if not self._stops_turns:
            self._end(signal.SIGINT)
        elif self._work is not None:
            self.stop_turn()
        elif self.when_idle is not None:
            self.when_idle()

    def _end(self, number: int) -> None:
        self.ended_by = number
        if self._main is not None:
            self._main.cancel()
