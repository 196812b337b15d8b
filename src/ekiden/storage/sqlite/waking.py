"""Waking sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import apsw

from ekiden.storage.sqlite.clock import Moment
from ekiden.storage.sqlite.rows import chunks, flat, padded, values_sql


def wake_sessions(db: apsw.Connection, session_ids: Iterable[str], now: Moment) -> None:
    """Wake each as often as it is named; one that does not exist is left out."""
    for chunk in chunks(list(Counter(session_ids).items())):
        size = padded(len(chunk))
        db.execute(_wake_sql(size), (now.wall_us, *flat(chunk, size)))


@cache
def _wake_sql(size: int) -> str:
    return f"""
        UPDATE sessions SET
            wakes = wakes + v.column2,
            updated_us = iif(status = 'waiting', ?, updated_us),
            status = iif(status = 'waiting', 'ready', status)
        FROM ({values_sql(size, 2)}) AS v WHERE sessions.id = v.column1
    """
