"""Hints between processes."""

import asyncio
import time
from typing import Any

import pytest

from ekiden.storage.base import NewSession
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.connection.address import parse_address
from ekiden.storage.postgres.connection.changes import PAUSE_S
from tests.support.sql import connect, execute, terminate

LISTENERS = """
select pid from pg_stat_activity
where application_name = $1 and query ilike 'listen%'"""


async def listening(store: PostgresStore, url: str) -> list[int]:
    """Wait until the store listens, which ends its first wait early."""
    async with asyncio.timeout(60):
        while True:
            await store.wait_for_change(5)
            name = f"ekiden:{parse_address(url).schema}"
            found = [row["pid"] for row in await execute(url, LISTENERS, name)]
            if found:
                return found


async def test_a_change_wakes_those_who_wait_elsewhere(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    async with PostgresStore(postgres_url) as other, asyncio.timeout(60):
        await listening(other, postgres_url)
        waiting = [asyncio.create_task(other.wait_for_change(60)) for _ in range(3)]
        await asyncio.sleep(0)
        await postgres_store.create(NewSession(id="s", agent="a", status="ready"))
        await asyncio.gather(*waiting)


async def test_what_happened_just_before_the_end_is_still_told(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    async with asyncio.timeout(60):
        await listening(postgres_store, postgres_url)
        waiting = asyncio.create_task(postgres_store.wait_for_change(60))
        async with PostgresStore(postgres_url) as other:
            await other.create(NewSession(id="s", agent="a"))
        await waiting


async def test_many_changes_make_few_notifications(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    heard: list[str] = []

    def hear(_connection: Any, _pid: int, _channel: str, payload: str) -> None:
        heard.append(payload)

    ear = await connect(postgres_url)
    await ear.add_listener(f"ekiden:{parse_address(postgres_url).schema}", hear)
    begin = time.monotonic()
    await asyncio.gather(
        *(postgres_store.create(NewSession(id=f"s{n}", agent="a")) for n in range(100))
    )
    await postgres_store.close()
    passed = time.monotonic() - begin
    await ear.fetch("select 1")
    assert 1 <= len(heard) <= passed / PAUSE_S + 1
    await ear.close()


async def test_a_listener_that_lost_its_connection_listens_again(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    before = await listening(postgres_store, postgres_url)
    await terminate(postgres_url)
    after = await listening(postgres_store, postgres_url)
    assert set(before).isdisjoint(after)


@pytest.mark.parametrize("timeout_s", [0.0, 0.05])
async def test_without_a_server_waiting_just_takes_its_time(
    unused_tcp_port: int, timeout_s: float
) -> None:
    store = PostgresStore(f"postgresql://me@127.0.0.1:{unused_tcp_port}/relay")
    async with asyncio.timeout(60):
        await store.wait_for_change(timeout_s)
        await store.close()
