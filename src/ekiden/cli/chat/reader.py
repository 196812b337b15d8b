"""The source of a person's input: the terminal and its interrupts, or lines of a pipe or file."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from ekiden.cli.errors import BadInput
from ekiden.cli.output import safe
from ekiden.core.values import loads


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


_CHUNK = 65_536
_LONGEST = 4_000_000
"""Longest line in bytes; longer ones are refused."""


class LineReader:
    """Reads `descriptor` line by line, without keeping the process alive.

    With `as_json` a line that begins with a quotation mark or a brace is JSON: a text, or an object
    with `text`. A message can then have several lines.
    """

    can_choose = False

    def __init__(self, descriptor: int = 0, *, as_json: bool = False) -> None:
        self._descriptor = descriptor
        self._as_json = as_json
        self._kept = b""
        self._is_at_end = False
        self._arriving: asyncio.Future[bytes] | None = None

    async def begin(self) -> None:
        """Does nothing: input waits in the pipe."""

    async def abandon(self) -> None:
        """Does nothing: `begin` showed no prompt."""

    async def read(self) -> str | None:
        line = await self._line()
        return None if line is None else self._text(line)

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Does nothing: there is no prompt."""
        yield

    async def ask(self, question: str) -> str | None:
        """No answer: the next line is a message."""
        return None

    async def choose(self, title: str, options: Sequence[str], *, start: int = 0) -> int | None:
        """Never called."""
        return None

    async def _line(self) -> bytes | None:
        too_long = False
        while b"\n" not in self._kept and not self._is_at_end:
            if len(self._kept) > _LONGEST:
                too_long, self._kept = True, b""
            self._arriving = start_reading(self._descriptor)
            chunk = await self._arriving
            self._kept += chunk
            self._is_at_end = not chunk
        line, newline, self._kept = self._kept.partition(b"\n")
        if too_long or len(line) > _LONGEST:
            raise BadInput(f"this message has more than {_LONGEST:,} bytes and is ignored")
        return line if line or newline else None

    def _text(self, line: bytes) -> str:
        try:
            text = line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as exc:
            raise BadInput(
                "this line is not UTF-8; convert the input first, for example with iconv"
            ) from exc
        if self._as_json and text.lstrip().startswith(('"', "{")):
            return _from_json(text)
        return text


class TypedLines(LineReader):
    """A terminal that cannot move its cursor: a plain prompt, and whole lines."""

    def __init__(self, status: StatusOf, descriptor: int = 0) -> None:
        super().__init__(descriptor)
        self._status = status
        self._interrupted = False
        self._is_reading = False
        self._answer: asyncio.Future[str | None] | None = None
        """Receives the next line of a `read` in progress, which answers a question."""

    async def read(self) -> str | None:
        self._prompt()
        self._is_reading = True
        try:
            line = await super().read()
            while self._answer is not None:
                answer, self._answer = self._answer, None
                if not answer.done():
                    answer.set_result(line)
                line = await super().read()
        finally:
            self._is_reading = False
        self._interrupted = False
        if line is None:
            sys.stdout.write("\n")
        return line

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Shows text on lines of its own, below the prompt; then prints a new prompt."""
        if not self._is_reading:
            yield
            return
        sys.stdout.write("\n")
        yield
        if self._is_reading:
            self._prompt()

    async def ask(self, question: str) -> str | None:
        from ekiden.cli.prompts import Question, ask_on_terminal

        if not self._is_reading:
            return await ask_on_terminal(Question(line=question))
        # The `read` in progress gets the next line, and passes it on as the answer.
        sys.stderr.write(question)
        sys.stderr.flush()
        self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        finally:
            self._answer = None

    def interrupted(self) -> None:
        """Ctrl-C at the prompt: the terminal has cleared the line; twice in a row ends the chat."""
        if not self._interrupted:
            self._interrupted = True
            sys.stdout.write("\n(Ctrl-C again leaves, or Ctrl-D)\n")
            self._prompt()
        elif self._arriving is not None and not self._arriving.done():
            self._arriving.set_result(b"")

    def _prompt(self) -> None:
        sys.stdout.write(f"{safe(self._status().agent)}> ")
        sys.stdout.flush()


def start_reading(descriptor: int) -> asyncio.Future[bytes]:
    """Starts a read; the result is some bytes, or none at the end.

    A thread that is never joined reads: a silent pipe must not keep a process alive. It reads the
    descriptor itself, because a lock on the buffered stream that is held when the interpreter ends
    is fatal.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()

    def give(chunk: bytes) -> None:
        if not arrived.done():
            arrived.set_result(chunk)

    def read() -> None:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except OSError:
            chunk = b""
        try:
            loop.call_soon_threadsafe(give, chunk)
        except RuntimeError:  # the loop is closed: the input is not needed any more
            return

    threading.Thread(target=read, name="ekiden-chat-input", daemon=True).start()
    return arrived


def _from_json(text: str) -> str:
    try:
        value = loads(text)
    except (ValueError, RecursionError) as exc:
        raise BadInput(
            'a line that begins with " or { must be JSON: a text, or an object {"text": …}'
        ) from exc
    if isinstance(value, dict):
        value = value.get("text")
    if not isinstance(value, str):
        raise BadInput('this JSON is not a message: give a text, or an object {"text": …}')
    return value
