"""Output: to a terminal, a pipe or a file, or as JSON."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeVar

from ekiden.cli.errors import UsageError
from ekiden.core.privacy.masking import cover
from ekiden.core.values import dumps

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that would move the cursor, recolour the screen or reorder text."""


def prepare_streams() -> None:
    """Make standard output and error accept any text, in every locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def prepare_log(*, as_json: bool) -> None:
    """Show warnings and tracebacks to people on standard error; programs read only JSON there.

    An existing log configuration takes precedence.
    """
    import logging

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(cover(self.format(record)))

    logging.lastResort = logging.NullHandler() if as_json else Notes(logging.WARNING)


def safe(text: str) -> str:
    """`text` with control and direction characters spelled out; line breaks and tabs stay.

    JSON stays JSON of the same value: such characters become JSON escapes.
    """
    return _UNSAFE.sub(lambda found: _spelled(found.group()), text)


def _spelled(char: str) -> str:
    if char < " ":  # JSON contains these characters only as escapes.
        return char.encode("unicode_escape").decode()
    return f"\\u{ord(char):04x}"


def say(text: str = "") -> None:
    """A line for people on standard output."""
    sys.stdout.write(safe(text) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A remark next to the result, on standard error."""
    sys.stderr.write(safe(text) + "\n")
    sys.stderr.flush()


def emit(value: Any) -> None:
    """A value for programs: JSON on one line of standard output."""
    sys.stdout.write(safe(dumps(value)) + "\n")
    sys.stdout.flush()


def show(found: T, as_text: str | Callable[[T], object], *, as_json: bool) -> None:
    """A value for people, as a line or as a function prints it; or for programs."""
    from ekiden.core.documents import to_json

    if as_json:
        emit(to_json(found))
    elif isinstance(as_text, str):
        say(as_text)
    else:
        as_text(found)


def complain(code: str, message: str, *, as_json: bool, **facts: Any) -> None:
    """An error on standard error; secrets in it are masked."""
    message = cover(message)
    if as_json:
        error: Mapping[str, Any] = {"code": code, "message": message, **facts}
        sys.stderr.write(safe(dumps({"error": error})) + "\n")
    else:
        sys.stderr.write(f"error[{safe(code)}]: {safe(message)}\n")
    sys.stderr.flush()


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether standard output is a terminal."""
    return (stream or sys.stdout).isatty()


class StatusLine:
    """A line on standard error that is overwritten; nothing in a pipe or with --json.

    As a context manager, it removes the line at the end.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._shows = is_terminal(sys.stderr) and not as_json
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, text: str) -> None:
        """Replace the line's text."""
        if self._shows:
            self._write(text)

    @asynccontextmanager
    async def timing(self, *, is_server: bool) -> AsyncIterator[None]:
        """While the body waits for a server, show for how long.

        A server does not report its progress, because an answer is one HTTP response.
        """
        if not (is_server and self._shows):
            yield
            return
        import asyncio

        async def tick() -> None:
            for seconds in count(1):
                await asyncio.sleep(1)
                self._write(f"the server is working: {seconds} s")

        task = asyncio.create_task(tick(), name="ekiden-server-time")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Remove the line."""
        if self._last:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text.ljust(len(self._last))}")
        sys.stderr.flush()
        self._last = text


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A file to write an export to. Raises `UsageError` if it already exists or cannot be
    written."""
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {exc.strerror}; name another file") from exc


@contextmanager
def export_lines(path: Path) -> Iterator[Iterable[str]]:
    """The lines of an export, with any bytes. Raises `UsageError` if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            yield file
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}; name the file of an export") from exc
