"""Output: to a terminal, a pipe or a file, as text, as tables or as JSON."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeAlias, TypeVar

from ekiden.cli.errors import UsageError
from ekiden.core.privacy.masking import cover
from ekiden.core.values import dumps, generated_part

if TYPE_CHECKING:
    from rich.console import RenderableType


T = TypeVar("T")

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that would move the cursor, recolour the screen or reorder text."""


def prepare_streams() -> None:
    """Make standard output and error accept any text, in every locale. Streams that the caller
    closed are replaced by an empty input, and by outputs that drop everything."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
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


def as_text(value: object) -> str:
    """A text unchanged, any other value as JSON."""
    return value if isinstance(value, str) else dumps(value)


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


# Tables. Both kinds handle wide characters: drawn for a terminal, and plain for a pipe.

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
_KEPT_DIGITS: Final = 12
"""Kept digits of an id that Ekiden made: its millisecond, and 12 random bits."""
_WHOLE: Final = 24
"""Ids chosen by users are not shortened up to this length."""
_LONG: Final = 32
"""Names and ids up to this width stay whole; a single word up to this width is not broken."""
_NARROWEST: Final = ((False, 10), (True, _LONG), (False, 6), (True, 8))
"""How columns get narrower, step by step: whether those with names and ids, and the least width."""


class Whole(str):
    """A cell that users copy: it is cut last, and only in its middle."""

    __slots__ = ()


class Id(Whole):
    """A cell with an id; a terminal shows as much of it as is unique."""

    __slots__ = ()


class TimeCell(float):
    """A cell with a time, in seconds since the epoch; a terminal shows how long ago it was."""

    __slots__ = ()


class Extra(str):
    """A header whose column a terminal shows only with `--wide`."""

    __slots__ = ()


Cell: TypeAlias = str | TimeCell
Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[Cell]]]
"""Headers and rows."""


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, wide: bool | None = None
) -> None:
    """A table of short texts.

    A terminal gets one line for each row: long texts are cut, unless `wide`. With `wide` off for a
    table that is read as a whole, they continue on the next line. A pipe gets everything.
    """
    if not is_terminal() or wide:
        sys.stdout.write(plain_table(headers, rows))
    elif wide is None:
        _print_rich(rich_table(headers, rows))
    else:
        import shutil

        width = shutil.get_terminal_size().columns
        sys.stdout.write(narrow_table(headers, rows, width=width))


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Labels with texts, which may be long and have several lines."""
    if is_terminal():
        _print_rich(rich_pairs(pairs))
    else:
        sys.stdout.write(plain_pairs(pairs))


def plain_table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Columns aligned with spaces; a cell is one line."""
    return _aligned([[_one_line(_text(cell)) for cell in row] for row in (headers, *rows)])


def narrow_table(headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, width: int) -> str:
    """One line for each row, at most `width` wide: ids are shortened, texts are cut."""
    from rich.cells import cell_len

    table = list(rows)
    columns = [
        (header, [row[place] for row in table])
        for place, header in enumerate(headers)
        if not isinstance(header, Extra)
    ]
    texts = [[header, *_short(cells)] for header, cells in columns]
    widths = [max(map(cell_len, column)) for column in texts]
    whole = [any(isinstance(cell, Whole) for cell in cells) for _, cells in columns]
    times = [any(isinstance(cell, TimeCell) for cell in cells) for _, cells in columns]
    caps, room = widths, width - 2 * (len(widths) - 1)
    for is_whole, least in _NARROWEST:
        shrinks = [one is is_whole and not time for one, time in zip(whole, times, strict=True)]
        caps = _caps(caps, shrinks, room, least)
    return _aligned(
        zip(
            *(
                [cut(_one_line(text), cap, keep_end=keep_end) for text in column]
                for column, cap, keep_end in zip(texts, caps, whole, strict=True)
            ),
            strict=True,
        )
    )


def cut(text: str, width: int, *, keep_end: bool = False, mark: str = "…") -> str:
    """A line in at most `width`; `keep_end` keeps its end too, and cuts in the middle."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    tail = width // 3 if keep_end else 0
    head = set_cell_size(text, max(width - tail - len(mark), 0)).rstrip()
    return f"{head}{mark}{set_cell_size(text[::-1], tail).rstrip()[::-1]}"


def plain_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """``label: text``; the further lines of a text are indented."""
    out = []
    for label, text in pairs:
        first, *rest = safe(text).split("\n")
        out.append(f"{safe(label)}: {first}".rstrip() + "\n")
        out.extend(f"  {line}".rstrip() + "\n" for line in rest)
    return "".join(out)


def moment(seconds: float | None) -> Cell:
    """The cell of a time that may be missing."""
    return "" if seconds is None else TimeCell(seconds)


def clock_time(seconds: float) -> str:
    """A time for people, in their own zone."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def ago(seconds: float, *, now: float | None = None) -> str:
    """Relative time: ``3m ago``, ``in 2d``."""
    passed = (time.time() if now is None else now) - seconds
    return f"in {span(-passed)}" if passed < -1 else f"{span(passed)} ago"


def span(seconds: float) -> str:
    """A duration: ``45s``, ``12m``, ``3h``, ``2d``."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"


def short_ids(ids: Sequence[str]) -> list[str]:
    """Each id as short as it is unique among `ids`.

    An id that Ekiden made keeps enough digits to be unique also among ids that are not listed. The
    id of an audit record below another kind of id cannot be found by a prefix, and stays whole.
    """
    heads = {each: generated_part(each) or each for each in ids}
    every = sorted(set(heads.values()))
    shorts = {}
    for place, head in enumerate(every):
        least = _WHOLE - 4 if len(head) > _WHOLE and "/" not in head else len(head)
        if generated_part(head):
            least = head.index("_") + 1 + _KEPT_DIGITS
        # In sorted order, the ids with the longest common prefix are neighbours.
        neighbours = [*every[max(place - 1, 0) : place], *every[place + 1 : place + 2]]
        shorts[head] = head[: max([least, *(_common(head, other) + 1 for other in neighbours)])]
    return [shorts[heads[each]] + each[len(heads[each]) :] for each in ids]


def rich_table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> RenderableType:
    """The table as Rich draws it."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[safe(_text(cell)) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, header in enumerate(headers):
        # Names and ids are not broken, so that they can be copied; texts get the rest of the room.
        is_word = not any(" " in row[place] or cell_len(row[place]) > _LONG for row in cells)
        table.add_column(header, no_wrap=is_word, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def rich_pairs(pairs: Iterable[tuple[str, str]]) -> RenderableType:
    """Labels with texts as Rich draws them."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in pairs:
        grid.add_row(Text(safe(label)), Text(safe(text)))
    return grid


def _short(cells: Sequence[Cell]) -> list[str]:
    """The cells of one column as a terminal shows them."""
    ids = iter(short_ids([cell for cell in cells if isinstance(cell, Id)]))
    return [
        ago(cell)
        if isinstance(cell, TimeCell)
        else next(ids)
        if isinstance(cell, Id)
        else _text(cell)
        for cell in cells
    ]


def _text(cell: Cell) -> str:
    return clock_time(cell) if isinstance(cell, TimeCell) else cell


def _common(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _caps(widths: Sequence[int], shrinks: Sequence[bool], room: int, least: int) -> list[int]:
    """The width of each column: of those that shrink, the widest shrink to equal widths."""
    cap = max(widths)
    while cap > least and _total(widths, shrinks, cap) > room:
        cap -= 1
    left = max(room - _total(widths, shrinks, cap), 0)
    caps = []
    for width, shrinks_too in reversed(list(zip(widths, shrinks, strict=True))):
        wanted = min(width, cap + left) if shrinks_too else width
        left -= max(wanted - cap, 0) if shrinks_too else 0
        caps.append(wanted)
    return caps[::-1]


def _total(widths: Sequence[int], shrinks: Sequence[bool], cap: int) -> int:
    return sum(
        min(width, cap) if shrinks_too else width
        for width, shrinks_too in zip(widths, shrinks, strict=True)
    )


def _one_line(text: str) -> str:
    return " ".join(safe(text).split())


def _aligned(rows: Iterable[Sequence[str]]) -> str:
    from rich.cells import cell_len

    table = list(rows)
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    lines = (
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in table
    )
    return "".join(f"{line}\n" for line in lines)


def _print_rich(renderable: RenderableType) -> None:
    from rich.console import Console

    Console().print(renderable)
