"""Addresses of stores that are not there yet."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest


@pytest.fixture(scope="session")
def _other_database(postgres_server_url: str) -> Iterator[str]:
    import asyncpg

    name = f"copies_{os.urandom(5).hex()}"

    async def execute(sql: str) -> None:
        connection = await asyncpg.connect(postgres_server_url)
        await connection.execute(sql)
        await connection.close()

    asyncio.run(execute(f"create database {name}"))
    yield name
    asyncio.run(execute(f"drop database {name} with (force)"))


@pytest.fixture
def elsewhere(_other_database: str, postgres_tools: Path) -> Callable[[str], str]:
    """The same schema in another database, into which a dump is restored."""
    return lambda url: urlunsplit(urlsplit(url)._replace(path=f"/{_other_database}"))


@pytest.fixture
def upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Makes this the next version of Ekiden, with one more migration, and gives its format."""
    from ekiden.storage.postgres import store as postgres
    from ekiden.storage.sqlite import open_store as sqlite
    from ekiden.storage.sqlite.copying import expected_columns

    caches = (postgres.shipped, sqlite.shipped, expected_columns)

    def now() -> int:
        later = sqlite.shipped()[-1].number + 1
        for number, back_end in enumerate((postgres, sqlite)):
            folder = shutil.copytree(back_end.FOLDER, tmp_path / f"migrations-{number}")
            more = "alter table sessions add column more integer;"
            (folder / f"{later:04}_more.sql").write_text(f"-- works with: 8\n{more}\n")
            monkeypatch.setattr(back_end, "FOLDER", folder)
        for each in caches:
            each.cache_clear()
        return later

    yield now
    for each in caches:
        each.cache_clear()


@pytest.fixture
async def place(postgres_server_url: str, tmp_path: Path) -> AsyncIterator[Callable[[str], str]]:
    """Gives addresses of stores that do not exist: `sqlite` or `postgresql`."""
    import asyncpg

    name = f"copy_{os.urandom(5).hex()}"
    joint = "&" if "?" in postgres_server_url else "?"
    count = 0

    def make(kind: str) -> str:
        nonlocal count
        count += 1
        if kind == "sqlite":
            return str(tmp_path / f"store-{count}.db")
        return f"{postgres_server_url}{joint}schema={name}_{count}"

    yield make
    connection = await asyncpg.connect(postgres_server_url)
    try:
        await connection.execute("set client_min_messages = warning")
        found = await connection.fetch(
            "select nspname from pg_namespace where starts_with(nspname, $1)", name
        )
        for (schema,) in found:
            await connection.execute(f'drop schema "{schema}" cascade')
    finally:
        await connection.close()
