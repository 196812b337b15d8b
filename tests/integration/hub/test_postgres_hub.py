"""The hub over PostgreSQL: several processes, several connections, one order."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.core.events import Event
from ekiden.hub import EventHub, HubEvent
from ekiden.storage.base import Batch
from ekiden.storage.postgres import PostgresStore
from tests.support.hub_stress import stress
from tests.support.sql import terminate


async def _happen(store: PostgresStore, number: int) -> None:
    said = Event(session_id="", seq=0, type="message", at_us=number)
    await store.write(Batch(events=[said]))


async def test_an_event_of_another_connection_is_seen_soon(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    hub = EventHub(postgres_store)
    async with PostgresStore(postgres_url) as other, hub, hub.subscribe() as stream:
        for number in range(5):
            await _happen(other, number)
            async with asyncio.timeout(60):
                assert (await anext(stream)).event.at_us == number


async def test_lost_connections_lose_no_events(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    found: list[HubEvent] = []

    async def read() -> None:
        async for each in hub.subscribe(after=""):
            found.append(each)
            if len(found) == 30:
                return

    hub = EventHub(postgres_store, retry_s=0.01)
    async with PostgresStore(postgres_url) as other, hub:
        reading = asyncio.create_task(read())
        for number in range(30):
            if number % 10 == 5:
                await terminate(postgres_url)
                await other.close()
                await other.open()
            await _happen(other, number)
        async with asyncio.timeout(60):
            await reading
    assert [each.event.at_us for each in found] == list(range(30))


@pytest.mark.slow
async def test_several_processes_see_every_event(postgres_url: str) -> None:
    await stress(postgres_url, seed=1, per_writer=100, subscribers=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
async def test_several_processes_see_every_event_over_a_longer_time(
    postgres_url: str, seed: int
) -> None:
    await stress(postgres_url, seed=seed, per_writer=800, subscribers=10)
