"""Fixtures with PostgreSQL: one real server for the whole run, a fresh schema for each test.

`EKIDEN_TEST_POSTGRES` names a server to use instead of our own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ekiden.storage.postgres import PostgresStore


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A database in which a test may make schemas."""
    from tests.support.server import shared_server

    named = os.environ.get("EKIDEN_TEST_POSTGRES")
    if named:
        yield named
        return
    with shared_server() as server:
        yield server.url


@pytest.fixture
async def postgres_url(postgres_server_url: str) -> AsyncIterator[str]:
    """The URL of a store that does not exist yet, as `EKIDEN_STORE` takes it."""
    import asyncpg

    schema = f"test_{os.urandom(6).hex()}"
    joint = "&" if "?" in postgres_server_url else "?"
    yield f"{postgres_server_url}{joint}schema={schema}"
    connection = await asyncpg.connect(postgres_server_url)
    try:
        await connection.execute("set client_min_messages = warning")
        await connection.execute(f"drop schema if exists {schema} cascade")
    finally:
        await connection.close()


@pytest.fixture
async def postgres_store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """An open, empty store."""
    from ekiden.storage.postgres import PostgresStore

    async with PostgresStore(postgres_url) as store:
        yield store
