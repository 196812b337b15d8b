"""Many rows in few statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import apsw

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

_ROWS_AT_ONCE = 128


def chunks(rows: Sequence[T]) -> Sequence[Sequence[T]]:
    """The rows in parts, each of which is one statement."""
    if len(rows) <= _ROWS_AT_ONCE:
        return (rows,) if rows else ()
    return [rows[at : at + _ROWS_AT_ONCE] for at in range(0, len(rows), _ROWS_AT_ONCE)]


def padded(count: int) -> int:
    """The next power of two: few different statements, all of which stay prepared."""
    return 1 << (count - 1).bit_length()


@cache
def values_sql(size: int, width: int) -> str:
    """`VALUES` for so many rows of so many columns."""
    return "VALUES " + ",".join([f"({','.join('?' * width)})"] * size)


def flat(rows: Sequence[Row], size: int) -> list[Any]:
    """The values of the rows, padded with rows of nulls."""
    values = list(chain.from_iterable(rows))
    if size > len(rows):
        values += [None] * ((size - len(rows)) * len(rows[0]))
    return values


def insert_rows(db: apsw.Connection, insert: str, rows: Sequence[Row]) -> None:
    """Insert the rows with few statements; the padding of nulls is left out."""
    for chunk in chunks(rows):
        size = padded(len(chunk))
        db.execute(_insert_sql(insert, size, len(chunk[0])), flat(chunk, size))


@cache
def _insert_sql(insert: str, size: int, width: int) -> str:
    return f"{insert} SELECT * FROM ({values_sql(size, width)}) WHERE column1 IS NOT NULL"
