"""Every table and column of a store is copied, or listed here with the reason why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import asyncpg

import ekiden
from ekiden.project import open_store
from ekiden.sessions import replica_progress, search
from ekiden.storage.copying import FOLLOWERS, MARK, TABLES
from ekiden.storage.postgres import copy_rows as postgres
from ekiden.storage.sqlite import rows as sqlite
from ekiden.tracing import otel_follower as otel_follower
from tests.support.sqlite import execute

Place = Callable[[str], str]
NOT_IN_FILES = {
    "sessions": {"owner", "lease_until"},
    "steps": {"id"},
    "documents": {"id"},
}
NOT_IN_SCHEMAS = {
    "sessions": {"owner", "lease_until", "lapses_at", "token"},
    "messages": {"token"},
    "search_entries": {"terms"},
}
"""Columns that mean nothing elsewhere, and the words, which are made anew."""


async def test_every_column_of_a_sqlite_store_is_copied_or_listed_as_left_out(place: Place) -> None:
    path = Path(place("sqlite"))
    async with open_store(str(path)) as store:
        await store.info()
    tables = {
        str(name)
        for (name,) in execute(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")
        if not name.startswith(("sqlite_", "search_words_"))
    }
    assert tables == {*TABLES, "machine", "migrations", "search_words"}
    for table in TABLES:
        there = {str(row[1]) for row in execute(path, f"PRAGMA table_xinfo({table})")}
        known = {*sqlite.stored_columns(table), *NOT_IN_FILES.get(table, ())}
        assert there == known, table


async def test_every_column_of_a_postgres_store_is_copied_or_listed_as_left_out(
    place: Place,
) -> None:
    url = place("postgresql")
    async with open_store(url) as store:
        schema = (await store.info())["schema"]
    connection = await asyncpg.connect(re.sub("[?&]schema=[a-z0-9_]+", "", url))
    found: dict[str, set[str]] = {}
    for table, column in await connection.fetch(
        "select table_name, column_name from information_schema.columns where table_schema = $1",
        schema,
    ):
        found.setdefault(table, set()).add(column)
    await connection.close()
    assert found.keys() == {*TABLES, "migrations", "writes"}
    for table in TABLES:
        known = {*postgres.stored_columns(table), *NOT_IN_SCHEMAS.get(table, ())}
        assert found[table] == known, table


def test_every_module_that_stores_a_feed_cursor_is_known() -> None:
    source = Path(ekiden.__file__).parent
    following = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if ".feed(after=" in file.read_text(encoding="utf-8")
        and "testing" not in file.relative_to(source).parts
    }
    elsewhere = {
        "hub/reader.py",  # Keeps it in memory; its clients begin anew.
        "sessions/replica_progress.py",  # Reads what mirroring stored.
    }
    assert following - elsewhere == {
        "sessions/search.py",
        "sessions/replica_feed.py",
        "tracing/otel_follower.py",
    }
    assert set(FOLLOWERS) == {search._COLLECTION, replica_progress.MIRRORS, otel_follower.PLACES}


def test_the_unfinished_mark_is_left_out_of_copies() -> None:
    assert f"(collection, key) <> {MARK}" in postgres.select_sql("documents")
