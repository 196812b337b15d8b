"""Documents that hold a place in the feed: it must mean the same in the copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from ekiden.core.errors import UserError
from ekiden.core.jsonio import dumps, loads
from ekiden.storage.copying import TABLES, BulkSource, BulkTarget, FeedMap, Row

FOLLOWERS: Final[Mapping[str, str]] = {
    "sessions.search": "after",
    "mirrors": "cursor",
    "otel.exporters": "cursor",
}
"""Collections whose documents have a cursor of the feed, and under which name."""

_BODY: Final = TABLES["documents"].index("body")


async def followed(
    rows: Sequence[Row], source: BulkSource, target: BulkTarget, places: FeedMap
) -> Sequence[Row]:
    """The documents with the cursors of the target in them."""
    if places.kept and not places.shift:
        return rows
    return [await _moved(row, source, target, places) if row[0] in FOLLOWERS else row
            for row in rows]  # fmt: skip


async def _moved(row: Row, source: BulkSource, target: BulkTarget, places: FeedMap) -> Row:
    body = loads(row[_BODY])
    name = FOLLOWERS[row[0]]
    cursor = body.get(name) if isinstance(body, dict) else None
    if not isinstance(cursor, str):
        return row
    # What is no cursor in the source either stays as it is.
    with suppress(UserError):
        rank = 0 if places.kept else await source.rank(cursor)
        body[name] = target.cursor(places, cursor=cursor, rank=rank)
    return (*row[:_BODY], dumps(body), *row[_BODY + 1 :])
