"""Ctrl-C, and signals to end, while a chat lasts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_TO_END = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """Turns SIGINT into the end of a turn, and SIGTERM and SIGHUP into the end of the chat.

    A turn that ends like this is parked: its session is free and can be resumed. Without
    `stops_turns`, as in a pipe, SIGINT ends the chat, too.
    """

    def __init__(self, *, stops_turns: bool) -> None:
        self.ended_by: int | None = None
        """The signal that ended the chat."""
        self.when_idle: Callable[[], None] | None = None
        """Called for a SIGINT while no turn runs."""
        self._stops_turns = stops_turns
        self._main: asyncio.Task[object] | None = None
        self._turn: asyncio.Task[object] | None = None

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
    def stopping(self, turn: asyncio.Task[object]) -> Iterator[None]:
        """Ctrl-C cancels `turn` while the body runs."""
        self._turn = turn
        try:
            yield
        finally:
            self._turn = None

    def stop_turn(self) -> None:
        """As Ctrl-C does."""
        if self._turn is not None:
            self._turn.cancel()

    def _interrupt(self) -> None:
        if not self._stops_turns:
            self._end(signal.SIGINT)
        elif self._turn is not None:
            self.stop_turn()
        elif self.when_idle is not None:
            self.when_idle()

    def _end(self, number: int) -> None:
        self.ended_by = number
        if self._main is not None:
            self._main.cancel()
