"""What is said line by line: through a pipe, from a file, or at a terminal that can do no more."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ekiden.cli.chat.reader import StatusOf
from ekiden.cli.errors import BadInput
from ekiden.core.jsonio import loads

_CHUNK = 65_536
_LONGEST = 4_000_000
"""Bytes of one line; what is longer is no message."""


class LineReader:
    """Reads `descriptor` line by line, without keeping the process alive for it.

    With `as_json` a line that begins with a quotation mark or a brace is JSON: a text, or an object
    with `text`, so that a message can have several lines.
    """

    can_choose = False

    def __init__(self, descriptor: int = 0, *, as_json: bool = False) -> None:
        self._descriptor = descriptor
        self._as_json = as_json
        self._kept = b""
        self._is_at_end = False

    async def read(self) -> str | None:
        line = await self._line()
        return None if line is None else self._text(line)

    async def ask(self, question: str) -> str | None:
        """Nobody is there to answer: the next line is a message."""
        return None

    async def choose(self, title: str, options: Sequence[str], *, start: int = 0) -> int | None:
        """Never called."""
        return None

    @contextmanager
    def quiet(self) -> Iterator[None]:
        yield

    async def _line(self) -> bytes | None:
        too_long = False
        while b"\n" not in self._kept and not self._is_at_end:
            if len(self._kept) > _LONGEST:
                too_long, self._kept = True, b""
            chunk = await read_chunk(self._descriptor)
            self._kept += chunk
            self._is_at_end = not chunk
        line, newline, self._kept = self._kept.partition(b"\n")
        if too_long or len(line) > _LONGEST:
            raise BadInput(f"a message has at most {_LONGEST:,} bytes; this one is left out")
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
    """A person at a terminal that cannot move its cursor: a plain prompt, and whole lines."""

    def __init__(self, status: StatusOf, descriptor: int = 0) -> None:
        super().__init__(descriptor)
        self._status = status
        self._interrupted = asyncio.Event()

    async def read(self) -> str | None:
        """As `LineReader` does; Ctrl-C empties the line, which the terminal does by itself."""
        sys.stdout.write(f"{self._status().agent}> ")
        sys.stdout.flush()
        line = await super().read()
        if line is None:
            sys.stdout.write("\n")
        return line

    async def ask(self, question: str) -> str | None:
        from ekiden.cli.approving import ask_on_terminal

        return await ask_on_terminal(question)


async def read_chunk(descriptor: int) -> bytes:
    """Some bytes, or none at the end.

    Read by a thread that nobody waits for: a pipe that stays silent must not keep a process from
    ending. It reads the descriptor itself, because a lock on the buffered stream that is held when
    the interpreter ends is fatal.
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
        except RuntimeError:  # the loop is closed: nobody is interested any more
            return

    threading.Thread(target=read, name="ekiden-chat-input", daemon=True).start()
    return await arrived


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
