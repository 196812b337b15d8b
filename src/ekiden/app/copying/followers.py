"""Documents that hold a place in the feed: it must mean the same in the copy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ekiden.core.errors import UserError
from ekiden.core.jsonio import dumps, loads
from ekiden.storage.copying import FOLLOWERS, TABLES, Row

if TYPE_CHECKING:
    from ekiden.storage.postgres.copy_target import PostgresTarget
    from ekiden.storage.sqlite.snapshot import SqliteSnapshot

_BODY: Final = TABLES["documents"].index("body")


async def followed(
    rows: Sequence[Row], source: SqliteSnapshot, target: PostgresTarget
) -> Sequence[Row]:
    """The documents with the cursors of the target in them."""
    return [await _moved(row, source, target) if row[0] in FOLLOWERS else row for row in rows]


async def _moved(row: Row, source: SqliteSnapshot, target: PostgresTarget) -> Row:
    body = loads(row[_BODY])
    name = FOLLOWERS[row[0]]
    cursor = body.get(name) if isinstance(body, dict) else None
    if not isinstance(cursor, str):
        return row
    # What is no cursor in the source either stays as it is.
    with suppress(UserError):
        body[name] = target.cursor(await source.rank(cursor))
    return (*row[:_BODY], dumps(body), *row[_BODY + 1 :])
