"""Texts in PostgreSQL, with pgvector and without."""

import os
import random
import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import SearchEntry
from ekiden.storage.postgres import PostgresStore
from tests.support.sql import execute

DIMS = 32
"""Whole blocks, so that pgvector is used if it is there."""


def entries(space: str = "s", dims: int = DIMS) -> list[SearchEntry]:
    chance = random.Random(1)
    return [
        SearchEntry(
            space=space,
            key=f"{number:03}",
            text=f"tea {number}",
            body=number,
            vector=[chance.gauss(0, 1) for _ in range(dims)],
            model="m",
        )
        for number in range(40)
    ]


async def nearest(store: PostgresStore, dims: int = DIMS) -> list[tuple[str, float]]:
    found = []
    for number in range(5):
        asked = [random.Random(number).gauss(0, 1) for _ in range(dims)]
        found += await store.search_vectors("s", asked, model="m", limit=7)
    return [(hit.entry.key, round(hit.score, 5)) for hit in found]


async def has_pgvector(url: str) -> bool:
    sql = "select 1 from pg_available_extensions where name = 'vector'"
    return bool(await execute(url, sql))


@pytest.fixture
async def own_database(postgres_server_url: str) -> AsyncIterator[str]:
    """The URL of a database of its own."""
    name = f"search_{os.urandom(4).hex()}"
    connection = await asyncpg.connect(postgres_server_url)
    await connection.execute(f"create database {name}")
    parts = urlsplit(postgres_server_url)
    yield urlunsplit(parts._replace(path=f"/{name}"))
    await connection.execute(f"drop database {name} with (force)")
    await connection.close()


@pytest.fixture
async def poor(postgres_server_url: str, own_database: str) -> AsyncIterator[str]:
    """The same database, for a role that may make a schema and nothing more."""
    role = f"poor_{os.urandom(4).hex()}"
    connection = await asyncpg.connect(own_database)
    await connection.execute(f"create role {role} login password 'p'")
    database = urlsplit(own_database).path[1:]
    await connection.execute(f"grant create on database {database} to {role}")
    parts = urlsplit(own_database)
    host = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{role}:p@{host}"))
    await connection.execute(f"drop owned by {role}")
    await connection.execute(f"drop role {role}")
    await connection.close()


async def test_pgvector_is_used_where_available(own_database: str) -> None:
    if not await has_pgvector(own_database):
        pytest.skip("this server does not have pgvector")
    async with PostgresStore(own_database) as store:
        assert (await store.info())["vectors"].startswith("pgvector ")
        await store.put_entries(entries())
        by_server = await nearest(store)
        store._extension = None
        assert await nearest(store) == by_server
    async with PostgresStore(own_database, schema="second") as store:
        assert (await store.info())["vectors"].startswith("pgvector ")


async def test_a_store_works_while_pgvector_is_removed_and_installed(own_database: str) -> None:
    if not await has_pgvector(own_database):
        pytest.skip("this server does not have pgvector")
    async with PostgresStore(own_database) as store:
        await store.put_entries(entries())
        expected = await nearest(store)
        await execute(own_database, "drop extension vector cascade")
        assert await nearest(store) == expected
        assert not (await store.info())["vectors"].startswith("pgvector")
        await store.put_entries(entries("t"))
    await execute(own_database, 'create schema "odd ""name"')
    await execute(own_database, 'create extension vector with schema "odd ""name"')
    async with PostgresStore(own_database) as store:
        assert (await store.info())["vectors"].startswith("pgvector")
        assert await nearest(store) == expected


@pytest.mark.parametrize("with_numpy", [True, False])
async def test_a_role_without_pgvector_can_search_vectors(
    poor: str, monkeypatch: pytest.MonkeyPatch, with_numpy: bool
) -> None:
    if not with_numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)
    async with PostgresStore(poor) as store:
        assert (await store.info())["vectors"].startswith("numpy" if with_numpy else "python")
        await store.put_entries(entries())
        found = await nearest(store)
        assert len(found) == 35
        assert all(0 <= score <= 1 for _, score in found)
        assert next(hit.entry.key for hit in await store.search_text("s", "tea 7")) == "007"


async def test_vectors_of_any_length_can_be_searched(postgres_store: PostgresStore) -> None:
    for dims in (1, 15, 16, 17, 16_000, 20_000):
        vector = [1.0] * dims
        new = SearchEntry(space=str(dims), key="k", text="", vector=vector, model="m")
        await postgres_store.put_entries([new])
        (hit,) = await postgres_store.search_vectors(str(dims), vector, model="m")
        assert round(hit.score, 4) == 1.0
        (back,) = await postgres_store.find_entries(str(dims))
        assert len(back.vector) == dims


async def test_an_emptied_space_leaves_no_rows(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.put_entries(entries())
    assert await postgres_store.delete_entries("s") == 40
    for table in ("search_spaces", "search_entries"):
        assert await execute(postgres_url, f"select * from {table}") == []


async def test_a_closed_store_refuses_every_search(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    await store.close()
    for call in (
        store.put_entries(entries()),
        store.find_entries("s"),
        store.delete_entries("s"),
        store.delete_entries(""),
        store.search_text("s", "tea"),
        store.search_vectors("s", [1.0], model="m"),
        store.search_vectors("", [1.0], model="m"),
    ):
        with pytest.raises(StoreUnavailable, match="is closed"):
            await call
