"""How a PostgreSQL store comes into being, and which ones are refused."""

import asyncio
import dataclasses

import asyncpg
import pytest

from ekiden.core.errors import (
    EngineTooOld,
    MigrationChanged,
    StoreTooNew,
    StoreTooOld,
    StoreUnavailable,
)
from ekiden.storage.base import NewSession
from ekiden.storage.copying import Migration
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.postgres.store import check_engine, migrate, shipped
from tests.support.sql import connect, execute, until_waited_for

ADDITION = Migration(number=1000, name="1000_more", sql="create table more (a integer)")


async def numbers(url: str) -> list[int]:
    return [row["number"] for row in await execute(url, "select number from migrations order by 1")]


async def test_a_new_store_has_the_newest_format(postgres_store: PostgresStore) -> None:
    info = await postgres_store.info()
    assert info["format"] == shipped()[-1].number
    assert info["engine"] == "postgresql"
    assert int(info["version"].partition(".")[0]) >= 14


async def test_stores_opened_concurrently_migrate_once(postgres_url: str) -> None:
    stores = [PostgresStore(postgres_url) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    assert await numbers(postgres_url) == [migration.number for migration in shipped()]
    await asyncio.gather(*(store.close() for store in stores))


async def test_reopening_changes_nothing(postgres_url: str) -> None:
    query = "select number, checksum, applied_at from migrations"
    async with PostgresStore(postgres_url):
        before = await execute(postgres_url, query)
    async with PostgresStore(postgres_url):
        assert await execute(postgres_url, query) == before


async def test_a_newer_format_is_refused_with_advice(postgres_url: str) -> None:
    async with PostgresStore(postgres_url):
        await execute(postgres_url, "insert into migrations values (1000, 'future', 'x')")
    with pytest.raises(StoreTooNew, match="upgrade Ekiden") as caught:
        await PostgresStore(postgres_url).open()
    assert caught.value.found == 1000


async def test_a_changed_migration_is_refused(postgres_url: str) -> None:
    async with PostgresStore(postgres_url):
        await execute(postgres_url, "update migrations set checksum = 'other'")
    with pytest.raises(MigrationChanged, match="migration 8 of postgresql://"):
        await PostgresStore(postgres_url).open()


async def test_an_outdated_store_of_a_development_version_is_refused(
    postgres_url: str,
) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.create(NewSession(id="s", agent="a"))
    old = "update migrations set checksum = 'of 0008_listing.sql' where number = 8"
    await execute(postgres_url, old)
    await execute(postgres_url, "insert into migrations values (7, '0007_digests', 'x')")
    async with PostgresStore(postgres_url) as store:
        assert (await store.get("s")).id == "s"
    await execute(postgres_url, "alter table migrations drop works_with")
    await execute(postgres_url, "delete from migrations where number >= 8")
    with pytest.raises(StoreTooOld, match="has format 7.*ekiden session export"):
        await PostgresStore(postgres_url).open()


async def test_only_missing_migrations_are_run(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.create(NewSession(id="s", agent="a"))
    async with PostgresStore(postgres_url, migrations=[*shipped(), ADDITION]) as store:
        assert (await numbers(postgres_url))[-1] == 1000
        assert (await store.get("s")).id == "s"


async def test_a_migration_waiting_for_a_reader_does_not_block_others(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.storage.postgres.store._LOCK_MS", 50)
    monkeypatch.setattr("ekiden.storage.postgres.store._PAUSE_S", 0.05)
    wider = dataclasses.replace(ADDITION, sql="alter table sessions add column colour text")
    address = parse_address(postgres_url)
    async with PostgresStore(postgres_url) as store:
        reader, connection = await connect(postgres_url), await connect(postgres_url)
        await reader.execute("begin; select from sessions")
        pid = reader.get_server_pid()
        with pytest.raises(StoreUnavailable, match=rf"others use its tables.*process {pid} of"):
            await migrate(connection, address, [*shipped(), wider], timeout_s=0)
        waiting = asyncio.create_task(migrate(connection, address, [*shipped(), wider]))
        await until_waited_for(pid, postgres_url)
        async with asyncio.timeout(60):
            await store.create(NewSession(id="s", agent="a"))
        assert not waiting.done()
        await reader.close()
        async with asyncio.timeout(60):
            await waiting
        assert (await numbers(postgres_url))[-1] == 1000
        await connection.close()


async def test_a_failed_migration_changes_nothing(postgres_url: str) -> None:
    broken = dataclasses.replace(ADDITION, number=1001, sql="create table more (b integer)")
    connection = await connect(postgres_url)
    with pytest.raises(asyncpg.DuplicateTableError):
        await migrate(connection, parse_address(postgres_url), [*shipped(), ADDITION, broken])
    assert await connection.fetchval("select to_regclass('sessions')") is None
    await connection.close()


async def test_a_killed_migration_is_repeated_as_a_whole(
    postgres_url: str,
) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.create(NewSession(id="s", agent="a"))
    dies = "; select pg_terminate_backend(pg_backend_pid())"
    connection = await connect(postgres_url)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await migrate(
            connection,
            parse_address(postgres_url),
            [*shipped(), dataclasses.replace(ADDITION, sql=ADDITION.sql + dies)],
        )
    connection.terminate()
    assert (await numbers(postgres_url))[-1] == shipped()[-1].number
    async with PostgresStore(postgres_url, migrations=[*shipped(), ADDITION]) as store:
        assert (await store.get("s")).id == "s"
    assert (await numbers(postgres_url))[-1] == 1000
    assert await execute(postgres_url, "select a from more") == []


async def test_schemas_of_one_database_are_separate(postgres_url: str) -> None:
    schema = f"{parse_address(postgres_url).schema}_b"
    async with PostgresStore(postgres_url) as one:
        async with PostgresStore(postgres_url, schema=schema) as two:
            await one.create(NewSession(id="s", agent="a"))
            await two.create(NewSession(id="s", agent="b"))
            assert (await one.get("s")).agent == "a"
            assert f"schema={schema}" in two.url
        await execute(postgres_url, f"drop schema {schema} cascade")


def test_a_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(EngineTooOld, match="PostgreSQL 13 is too old, 14 or newer"):
        check_engine(13)
    check_engine(14)
