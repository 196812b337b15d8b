"""Fixtures with PostgreSQL: one real server for the whole run, a fresh schema for each test.

`EKIDEN_TEST_POSTGRES` names a server to use instead of our own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
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
def postgres_tools(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with PostgreSQL's own programs, which is the first in `PATH`."""
    from tests.support.server import pgserver

    [*_, tool] = sorted(Path(pgserver().__file__).parent.rglob("bin/pg_dump"))
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    return tool.parent


@pytest.fixture
async def postgres_url(postgres_server_url: str) -> AsyncIterator[str]:
    """The URL of a store that does not exist yet, as `EKIDEN_STORE` takes it."""
    schema = _new_name()
    yield _url_of(postgres_server_url, schema)
    await _execute(postgres_server_url, _DROP.format(schema))


@pytest.fixture(scope="session")
def _kept_schema(postgres_server_url: str) -> Iterator[str]:
    schema = _new_name()
    yield schema
    asyncio.run(_execute(postgres_server_url, _DROP.format(schema)))


@pytest.fixture
async def emptied_postgres_url(postgres_server_url: str, _kept_schema: str) -> AsyncIterator[str]:
    """The URL of a store whose tables are there from the second test on, and empty each time.

    To make them takes longer than most tests. Not for tests that change tables.
    """
    yield _url_of(postgres_server_url, _kept_schema)
    await _execute(postgres_server_url, _EMPTY.format(_kept_schema))


_DROP = "set client_min_messages = warning; drop schema if exists {} cascade"
_EMPTY = """
do $$
declare
  each record;
  has_rows boolean;
begin
  for each in select tablename from pg_tables
    where schemaname = '{0}' and tablename <> 'migrations'
  loop
    execute format('select exists (select from {0}.%I)', each.tablename) into has_rows;
    if has_rows then execute format('delete from {0}.%I', each.tablename); end if;
  end loop;
  for each in select sequencename from pg_sequences where schemaname = '{0}'
  loop perform setval(format('{0}.%I', each.sequencename), 1, false); end loop;
end $$
"""


def _new_name() -> str:
    return f"test_{os.urandom(6).hex()}"


def _url_of(server: str, schema: str) -> str:
    return f"{server}{'&' if '?' in server else '?'}schema={schema}"


async def _execute(server: str, statement: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(server)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
async def postgres_store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """An open, empty store."""
    from ekiden.storage.postgres import PostgresStore

    async with PostgresStore(postgres_url) as store:
        yield store
