"""The list of workers that is in the store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.engine import Worker, submit
from ekiden.engine.registry import (
    BEATS,
    WORKERS,
    Heartbeat,
    WorkerRecord,
    list_workers,
    prune_workers,
    removals,
    unserved,
)
from ekiden.engine.store_worker import StoreWorker
from ekiden.runtime import CodeContext, RunConfig
from ekiden.sessions import Session
from ekiden.storage.base import Document, DocumentWrite
from ekiden.storage.memory import MemoryStore
from tests.support.until import until


async def echo(ctx: CodeContext[Any]) -> str:
    return ctx.text


TEAM = Team(Agent("echo", run=echo))


def enlisting(store: MemoryStore, **options: Any) -> Heartbeat:
    station = StoreWorker(store, TEAM, serves=["echo"], config=RunConfig(), name="acme")
    return Heartbeat(station, concurrency=3, **options)


async def seen(store: MemoryStore, number: int) -> list[WorkerRecord]:
    while len(found := await list_workers(store)) != number:
        await store.wait_for_change(0.05)
    return found


async def age(store: MemoryStore, seconds: float) -> None:
    """Make all entries older."""
    writes = []
    for collection, name in ((BEATS, "seen_us"), (WORKERS, "started_us")):
        for each in await store.list_documents(collection):
            then = each.body.get(name, each.updated_at_us) - round(seconds * 1e6)
            body = {**each.body, name: then}
            writes.append(DocumentWrite(collection=collection, key=each.key, body=body))
    await store.write_documents(writes)


async def test_a_running_worker_is_listed() -> None:
    store, gate = MemoryStore(), asyncio.Event()

    async def slow(ctx: CodeContext[Any]) -> str:
        await gate.wait()
        return "done"

    team = Team(Agent("slow", run=slow))
    worker = Worker(store, team, concurrency=3, labels=["gpu"], tenant="acme")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        [record] = await seen(store, 1)
        assert (record.pid, record.agents, record.labels) == (os.getpid(), ("slow",), ("gpu",))
        assert (record.concurrency, record.state, record.engine) == (3, "working", "worker")
        assert (record.tenant, record.running, record.finished) == ("acme", 0, 0)
        assert record.seen_at >= record.started_at
        gate.set()
        worker.stop()
    assert await list_workers(store) == []


async def test_a_heartbeat_reports_the_work_of_a_worker() -> None:
    store, gate, begun = MemoryStore(), asyncio.Event(), asyncio.Event()

    async def slow(ctx: CodeContext[Any]) -> str:
        begun.set()
        await gate.wait()
        return "done"

    team = Team(Agent("slow", run=slow))
    await submit(team, "go", session=Session("s", store=store))
    station = StoreWorker(store, team, serves=["slow"], config=RunConfig())
    draining = False
    entry = Heartbeat(station, concurrency=1, is_draining=lambda: draining)
    claimed = await station.claim()
    assert claimed is not None
    working = asyncio.create_task(station.advance(*claimed))
    await begun.wait()
    await entry.beat()
    [record] = await list_workers(store)
    assert (record.running, record.finished, record.state) == (1, 0, "working")
    gate.set()
    await working
    draining = True
    await entry.beat()
    [record] = await list_workers(store)
    assert (record.running, record.finished, record.state) == (0, 1, "draining")


async def test_a_dead_worker_is_marked_gone_and_removed_after_an_hour() -> None:
    store = MemoryStore()
    await enlisting(store).beat()
    await age(store, 60)
    [record] = await list_workers(store)
    assert (record.state, record.is_there) == ("gone", False)
    assert await prune_workers(store) == 0
    await age(store, 3600)
    assert await prune_workers(store) == 1
    assert await list_workers(store) == []
    assert await store.list_documents(BEATS) == []


async def test_a_heartbeat_without_its_worker_is_removed() -> None:
    store = MemoryStore()
    entry = enlisting(store)
    await entry.beat()
    await store.write_documents([DocumentWrite(collection=WORKERS, key=entry.id, body=None)])
    await prune_workers(store)
    assert await store.list_documents(BEATS) == []


class _Registering(MemoryStore):
    """A worker that began long ago writes its entry again while the list is being read."""

    async def list_documents(self, collection: str, **options: Any) -> Sequence[Document]:
        found = await super().list_documents(collection, **options)
        if collection == BEATS and not found:
            body = {"started_us": 0}
            seen = {"seen_us": await self.now_us()}
            await self.write_documents(
                [
                    DocumentWrite(collection=WORKERS, key="w", body=body),
                    DocumentWrite(collection=BEATS, key="w", body=seen),
                ]
            )
        return found


async def test_a_worker_that_registers_during_pruning_stays() -> None:
    store = _Registering()
    assert await prune_workers(store) == 0
    assert [each.key for each in await store.list_documents(WORKERS)] == ["w"]


async def test_worker_records_of_another_version_are_skipped() -> None:
    store = MemoryStore()
    body = {"started_us": 1, "shape": "new"}
    await store.write_documents([DocumentWrite(collection=WORKERS, key="w", body=body)])
    assert await list_workers(store) == []


async def test_without_workers_no_agent_is_reported_as_unserved() -> None:
    store = MemoryStore()
    await submit(TEAM, "go", session=Session("s", store=store))
    assert await unserved(store, await list_workers(store)) == []
    await enlisting(store).beat()
    assert await unserved(store, await list_workers(store)) == []
    await submit(Agent("other", run=echo), "go", session=Session("t", store=store))
    [left] = await unserved(store, await list_workers(store))
    assert str(left) == "other: 1"


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("odd")])
async def test_a_failing_worker_list_does_not_stop_the_work(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Unwritable(MemoryStore):
        async def write_documents(self, writes: Any, **options: Any) -> None:
            if any(each.collection == BEATS for each in writes):
                raise error
            await super().write_documents(writes, **options)

    store = Unwritable()
    worker = Worker(store, TEAM)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await until(lambda: "list of workers" in caplog.text)
        await submit(TEAM, "go", session=Session("s", store=store))
        while not worker.finished:
            await store.wait_for_change(0.05)
        worker.stop()


async def test_an_unwritten_worker_record_is_written_with_the_next_heartbeat() -> None:
    class Blinking(MemoryStore):
        away = True

        async def write_documents(self, writes: Any, **options: Any) -> None:
            if self.away:
                self.away = False
                raise StoreUnavailable("away")
            await super().write_documents(writes, **options)

    store = Blinking()
    entry = enlisting(store)
    with pytest.raises(StoreUnavailable):
        await entry.beat()
    await entry.beat()
    assert len(await list_workers(store)) == 1
    await entry.leave()
    assert await store.list_documents(BEATS) == []


async def test_a_removed_worker_record_is_restored_by_the_next_heartbeat() -> None:
    store = MemoryStore()
    entry = enlisting(store)
    await entry.beat()
    [before] = await list_workers(store)
    await store.write_documents(removals(entry.id))
    for _ in range(15):
        await entry.beat()
    [after] = await list_workers(store)
    assert after.started_at == before.started_at
    assert after.seen_at > before.seen_at


async def test_a_draining_worker_serves_no_agent() -> None:
    store = MemoryStore()
    other = StoreWorker(store, Team(Agent("b", run=echo)), serves=["b"], config=RunConfig())
    await Heartbeat(other, concurrency=1).beat()
    await enlisting(store, is_draining=lambda: True).beat()
    await submit(TEAM, "go", session=Session("s", store=store))
    [left] = await unserved(store, await list_workers(store))
    assert str(left) == "echo: 1"


async def test_an_unserved_session_behind_many_others_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ekiden.engine.registry._LOOKED_AT", 3)
    store = MemoryStore()
    painter = Agent("painter", run=echo, runs_on=frozenset({"gpu"}))
    team = Team(TEAM["echo"], painter)
    station = StoreWorker(store, team, serves=["echo"], config=RunConfig())
    await Heartbeat(station, concurrency=1).beat()
    await submit(painter, "draw", session=Session("p", store=store))
    for number in range(5):
        await submit(TEAM, "go", session=Session(f"s{number}", store=store))
    workers = await list_workers(store)
    for among in (None, ["painter"]):
        [left] = await unserved(store, workers, among=among)
        assert str(left) == "painter: 1 (it needs a worker with the label gpu)"
