"""Line-by-line input: a pipe, a file, or a terminal without cursor movement."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ekiden.cli.chat.typed.reader import StatusOf
from ekiden.cli.errors import BadInput
from ekiden.cli.terminal.output import safe
from ekiden.core.values import loads

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
            raise BadInput(f"a message has at most {_LONGEST:,} bytes; this one is ignored")
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
        from ekiden.cli.terminal.prompts import Question, ask_on_terminal

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
        raise BadInput('this JSON is no message: give a text, or an object {"text": …}')
    return value
