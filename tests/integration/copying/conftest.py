"""Addresses of stores that are not there yet."""

from __future__ import annotations

import asyncio
import os
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
