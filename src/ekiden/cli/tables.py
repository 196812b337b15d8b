"""Rows and columns: drawn for a terminal, plain for a pipe; both right for wide characters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ekiden.cli.output import is_terminal, safe

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table of short texts."""
    if is_terminal():
        _print_rich(rich_table(headers, rows))
    else:
        sys.stdout.write(plain_table(headers, rows))


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Labels with texts, which may be long and have several lines."""
    if is_terminal():
        _print_rich(rich_pairs(pairs))
    else:
        sys.stdout.write(plain_pairs(pairs))


def plain_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns aligned with spaces; a cell is one line."""
    from rich.cells import cell_len

    table = [[" ".join(safe(cell).split()) for cell in row] for row in (headers, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    lines = (
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in table
    )
    return "".join(f"{line}\n" for line in lines)


def plain_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """``label: text``; the further lines of a text are indented."""
    out = []
    for label, text in pairs:
        first, *rest = safe(text).split("\n")
        out.append(f"{safe(label)}: {first}".rstrip() + "\n")
        out.extend(f"  {line}".rstrip() + "\n" for line in rest)
    return "".join(out)


def clock_time(seconds: float) -> str:
    """A time for people, in their own zone."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def rich_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    """The table as Rich draws it."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    cells = [[safe(cell) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, header in enumerate(headers):
        # Names and ids stay whole, so that they can be copied; texts give way.
        is_word = not any(" " in row[place] for row in cells)
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


def _print_rich(renderable: RenderableType) -> None:
    from rich.console import Console

    Console().print(renderable)
