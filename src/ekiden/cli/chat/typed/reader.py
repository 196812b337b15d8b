"""The source of a person's input, its interrupts, and the terminal's settings."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status shown at a prompt."""

    agent: str
    """The agent that gets the next message."""
    session_id: str
    details: str = ""
    """Further facts for the person."""


StatusOf: TypeAlias = Callable[[], Status]


class Reader(Protocol):
    """Reads a person's input and decisions."""

    @property
    def can_choose(self) -> bool:
        """Whether `choose` can show a list; if not, it is never called."""
        ...

    async def begin(self) -> None:
        """Let the person start typing, where possible; `read` returns it later."""
        ...

    async def abandon(self) -> None:
        """Undo `begin`, if nothing was read since."""
        ...

    async def read(self) -> str | None:
        """The next input; `None` at the end. `BadInput` for one that is not text: read on."""
        ...

    def aside(self) -> AbstractAsyncContextManager[None]:
        """While the body runs, other output may use the screen; a `read` in progress continues
        afterwards with the typed text."""
        ...

    async def ask(self, question: str) -> str | None:
        """The line typed after `question`; `None` at the end of input."""
        ...

    async def choose(self, title: str, options: Sequence[str], *, start: int = 0) -> int | None:
        """The index of the option that the person picks; `None` for none of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedMessage:
    """A message to the team."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCommand:
    """A command: everything after the slash."""

    line: str


def read_input(text: str) -> TypedMessage | TypedCommand | None:
    """A message or a command; `None` if the text is empty.

    To send a message that begins with a slash, type two.
    """
    bare = text.strip()
    if not bare:
        return None
    if bare.startswith("//"):
        return TypedMessage(text=bare[1:])
    if bare.startswith("/"):
        return TypedCommand(line=bare[1:].strip())
    return TypedMessage(text=text.strip("\n"))


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


@contextmanager
def quiet_keys(descriptor: int | None = None) -> Iterator[None]:
    """Keys are not echoed but kept for the next prompt; Ctrl-C and Ctrl-Z still work.

    Does nothing where there is no terminal.
    """
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    try:
        number = sys.stdin.fileno() if descriptor is None else descriptor
        before = termios.tcgetattr(number)
    except (termios.error, OSError, ValueError):
        yield
        return
    changed = list(before)
    changed[0] &= ~termios.ICRNL
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(number, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        _restore(number, before)


def _restore(number: int, settings: list[object]) -> None:
    import termios

    try:
        termios.tcsetattr(number, termios.TCSADRAIN, settings)  # type: ignore[arg-type]
    except termios.error:  # the terminal is gone
        return
