"""Feeding a mirror from PostgreSQL: several processes write and feed, one mirror gets it all."""

from __future__ import annotations

import asyncio

from ekiden.sessions.replica import ReplicaPolicy
from ekiden.sessions.replica_feed import replicate_sessions
from ekiden.sessions.replica_progress import replica_status
from ekiden.storage.postgres import PostgresStore
from tests.integration.mirror.conftest import vertex
from tests.integration.mirror.talking import talk
from tests.support.vendor import LOST, status
from tests.support.vertex_server import VertexServer


async def test_two_feeders_and_two_writers_deliver_everything_once(
    postgres_store: PostgresStore, postgres_url: str, server: VertexServer
) -> None:
    policy = ReplicaPolicy(first_pause_s=0.01, longest_pause_s=0.05)
    stop = asyncio.Event()
    mirrors = [vertex(server), vertex(server)]
    async with PostgresStore(postgres_url) as other:
        stores = [postgres_store, other]
        feeding = [
            asyncio.create_task(replicate_sessions(store, mirror, stop=stop, policy=policy))
            for store, mirror in zip(stores, mirrors, strict=True)
        ]
        server.troubles.extend([status(503), LOST, None, LOST, status(429, retry_after="0")])
        writing = [
            talk(store, f"s{number}", "one", "two", "three")
            for number in range(6)
            for store in stores[number % 2 :][:1]
        ]
        await asyncio.gather(*writing)
        async with asyncio.timeout(60):
            while not (await replica_status(other, mirrors[0].name)).up_to_date:
                await other.wait_for_change(0.1)
        stop.set()
        await asyncio.gather(*feeding)
    for mirror in mirrors:
        await mirror.close()
    said = ["one", "re: one", "two", "re: two", "three", "re: three"]
    assert [
        [event["content"]["parts"][0]["text"] for event in events]
        for events in server.events.values()
    ] == [said] * 6
