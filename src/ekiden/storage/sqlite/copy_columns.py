"""What a file of each format has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import apsw

from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.migrate import MIGRATIONS_TABLE, SHIPPED, load_migrations

# Without those that the engine makes for itself, each version its own.
_TABLES = """
SELECT name FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT GLOB 'search_words_*'"""


@cache
def expected_columns(number: int) -> Mapping[str, frozenset[str]]:
    """The columns of all tables of that format; none of 0, which is an empty file."""
    if not number:
        return {}
    db = apsw.Connection(":memory:")
    try:
        db.execute(MIGRATIONS_TABLE)
        for migration in load_migrations(SHIPPED):
            if migration.number <= number:
                db.execute(migration.sql)
        return {
            table: frozenset(str(row[1]) for row in query(db, f"PRAGMA table_xinfo({table})"))
            for (table,) in query(db, _TABLES)
        }
    finally:
        db.close()
