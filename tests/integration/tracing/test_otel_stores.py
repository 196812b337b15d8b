"""Traces followed in databases that several processes share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.project import open_store
from ekiden.storage.base import Store
from ekiden.storage.postgres import PostgresStore
from ekiden.tracing import FollowPolicy, OtelFollower, read_trace
from tests.support.otlp import OtlpServer
from tests.unit.tracing.otel_team import clean_environment, conversation

__all__ = ["clean_environment"]

POLICY = FollowPolicy(page=7, first_pause_s=0.01, longest_pause_s=0.05)
SESSIONS = [f"s{number}" for number in range(6)]


@pytest.fixture
async def collector() -> AsyncIterator[OtlpServer]:
    async with OtlpServer() as server:
        yield server


async def followed(stores: list[Store], collector: OtlpServer) -> None:
    """Two follow and two write, the collector is away now and then, and everything arrives."""
    collector.answer_next(200, 500, 500, 200, 500, 200)
    followers = [
        OtelFollower(store, endpoint=collector.origin, from_start=True, policy=POLICY)
        for store in stores
    ]
    tasks = [asyncio.create_task(each.run()) for each in followers]
    try:
        await asyncio.gather(
            *(conversation(stores[number % 2], session) for number, session in enumerate(SESSIONS))
        )
        wanted = {
            span.span_id
            for session in SESSIONS
            for span in (await read_trace(stores[0], session)).spans
            if span.kind != "session"
        }
        await collector.wait_until(lambda: {span.span_id for span in collector.spans} >= wanted)
    finally:
        for each in followers:
            each.stop()
        await asyncio.gather(*tasks)
    assert {span.span_id for span in collector.spans} == wanted
    assert len(collector.spans) == len(wanted)


async def test_followers_of_a_sqlite_store_export_spans_once(
    tmp_path: Path, collector: OtlpServer
) -> None:
    url = str(tmp_path / "desk.db")
    async with open_store(url) as first, open_store(url) as second:
        await followed([first, second], collector)


async def test_followers_of_a_postgres_store_export_spans_once(
    postgres_store: PostgresStore, postgres_url: str, collector: OtlpServer
) -> None:
    async with PostgresStore(postgres_url) as other:
        await followed([postgres_store, other], collector)
