"""`ekiden bench load` does the work that it says it measures, with real worker processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.project import open_store
from ekiden.project.bench.load import LoadSize, _Load, load, loopback_us
from ekiden.project.bench.load_worker import (
    WorkerEnded,
    bench_database,
    cpu_s,
    rss_mb,
    server_cpu_s,
    started_workers,
)
from ekiden.storage.base import Commit, NewSession, SessionPatch

SMALL = LoadSize(sessions=6, workers=2, concurrency=2, messages=3)


@pytest.fixture(autouse=True)
def _short_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.project.bench.load_worker._PROBE_S", 0.02)


async def measured(store: str | None, folder: Path, size: LoadSize = SMALL) -> dict[str, Any]:
    notes: list[str] = []
    figures = await load(size, store=store, folder=folder, note=notes.append)
    assert "opening 6 sessions" in notes
    return figures


async def test_every_message_has_one_outcome_on_a_file_store(tmp_path: Path) -> None:
    figures = await measured(None, tmp_path)
    assert figures["store"] == "sqlite"
    assert (figures["messages"], figures["lost"], figures["doubled"]) == (9, 0, 0)
    assert figures["steps_counted_by"] == "the session"
    assert figures["commits_counted_by_workers"] == 6 * 4 + 3 * 3
    assert figures["latency_ms"]["p50"] <= figures["latency_ms"]["p99"]
    assert figures["bytes_per_session"] > 0
    assert len(figures["worker_rss_mb"]) == 2
    assert figures["machine"]["cores"] >= 1
    assert figures["machine"]["fsync_us"] > 0
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.slow
async def test_postgresql_counts_its_steps_and_its_schema_is_removed(
    tmp_path: Path, postgres_server_url: str
) -> None:
    import asyncpg

    size = LoadSize(sessions=6, workers=2, concurrency=2, messages=3, seconds=0.001)
    figures = await measured(postgres_server_url, tmp_path, size)
    assert (figures["messages"], figures["lost"], figures["doubled"]) == (7, 0, 0)
    assert (figures["steps"], figures["steps_counted_by"]) == (24, "the database")
    assert figures["machine"]["bare_commits_per_s"]["connections"] == 8
    assert figures["database_cores"] is not None
    assert figures["machine"]["durability"].keys() == {"fsync", "synchronous_commit"}
    connection = await asyncpg.connect(postgres_server_url)
    sql = "select count(*) from pg_namespace where nspname like 'ekiden_bench_%'"
    assert await connection.fetchval(sql) == 0
    await connection.close()


async def test_lost_and_duplicated_results_are_counted(tmp_path: Path) -> None:
    async with bench_database(None, tmp_path) as database, open_store(database.url) as store:
        measuring = _Load(SMALL, database, store, note=lambda _: None)
        for number, length in enumerate((10, 10, 11, 10, 16)):
            new = NewSession(id=f"s{number}", agent="specialist")
            claim, _ = await store.claim(new.id, owner="me", lease_s=60, create=new)
            events = [event(new.id, seq) for seq in range(1, length + 1)]
            patch = SessionPatch(status="idle", outcome="done")
            await store.commit(claim, Commit(patch=patch, events=events, release=True))
        await store.create(NewSession(id="s5", agent="triage", status="ready"))
        measuring._messages.update({"s0": 1, "s1": 1, "s2": 1, "s3": 2, "s4": 2, "s5": 2, "s6": 1})
        rows = await measuring._rows()
        found = measuring._checked(rows, [{"model_calls": 20}])
        fewer = measuring._checked(rows, [{"model_calls": 17}])
    assert found["messages"] == 10
    assert found["lost"] == 4, "two of a session that is not done, one of none, one left no event"
    assert found["doubled"] == 2, "one event, and one model call of 20 for five sessions"
    assert found["model_calls_missing"] == 0
    assert (fewer["doubled"], fewer["model_calls_missing"]) == (1, 2)


def event(session_id: str, seq: int) -> Event:
    return Event(session_id=session_id, seq=seq, type="message", at_us=seq, agent="a")


async def test_a_worker_that_fails_to_start_ends_the_measurement(tmp_path: Path) -> None:
    with pytest.raises(WorkerEnded, match="could not begin"):
        async with started_workers(str(tmp_path / "nowhere" / "x.db"), workers=1, concurrency=1):
            raise AssertionError("it has no store")


async def test_a_memory_store_is_refused_for_several_workers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot share memory:"):
        async with bench_database("memory:", tmp_path):
            raise AssertionError("never")


async def test_a_named_file_selects_the_disk_and_is_left_unchanged(tmp_path: Path) -> None:
    mine = tmp_path / "mine.db"
    mine.write_text("not a store")
    async with bench_database(f"sqlite:///{mine}", tmp_path / "elsewhere") as database:
        assert Path(database.url).parent == tmp_path
        assert Path(database.url) != mine
        assert await database.bare_commits(1) > 0
        assert (await database.steps(), await database.cpu_s()) == (None, None)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.db"]


def test_more_messages_than_sessions_are_refused() -> None:
    with pytest.raises(UserError, match="--messages or --sessions"):
        LoadSize(sessions=5, messages=6)


def test_costs_of_a_missing_process_are_unknown() -> None:
    assert cpu_s(2**30) is None
    assert rss_mb(2**30) is None
    assert server_cpu_s(2**30) is None
    assert server_cpu_s(os.getpid()) is None, "this is no PostgreSQL server"


async def test_the_loopback_time_is_measured_where_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = await loopback_us()
    assert taken is not None
    assert taken > 0

    async def closed(*args: object) -> None:
        raise OSError("no network here")

    monkeypatch.setattr("asyncio.open_connection", closed)
    assert await loopback_us() is None
