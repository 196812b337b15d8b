"""`ekiden bench load`: many open sessions in one database, shared by worker processes.

To measure the throughput, all sessions get a message before the workers start, and then the workers
handle the messages. To measure the latency, messages arrive one by one in open sessions, at a
fraction of the measured throughput.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden import __version__
from ekiden.core.errors import UserError
from ekiden.engine import submit
from ekiden.project.bench.load_worker import (
    BenchDatabase,
    WorkerProcesses,
    bench_database,
    started_workers,
)
from ekiden.project.bench.measure import DeskModel, desk_team, fsync_us
from ekiden.project.stores import open_store
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, SessionRow, Store

Note = Callable[[str], None]

_FIRST_CALLS, _LATER_CALLS = 3, 2
"""Model calls of a message: handoff, tool and answer. Later messages need no handoff."""
_FIRST_EVENTS, _LATER_EVENTS = 10, 6
"""Events that a message adds to its session."""
_FIRST_STEPS = 4
_SENDERS = 16
_POLL_S = 0.1
_NOTE_S = 5.0
_PAGE = 1000
_PACE = 0.5
"""The rate of messages one by one, as a part of the throughput."""
_SEED = 11

_ROUND_TRIPS = 1000


async def machine(database: BenchDatabase, *, folder: Path, connections: int) -> dict[str, Any]:
    """The limits of this machine, with which you can compare the figures."""
    alone = await database.bare_commits(1)
    at_once = await database.bare_commits(connections)
    trip, loopback = await database.round_trip_us(), await loopback_us()
    return {
        "cores": _cores(),
        "kind": platform.machine(),
        "load_1min_before": round(os.getloadavg()[0], 2),
        "fsync_us": round(await asyncio.to_thread(fsync_us, folder), 1),
        "bare_commits_per_s": {
            "one_by_one": round(alone),
            "at_once": round(at_once),
            "connections": connections,
        },
        "loopback_us": None if loopback is None else round(loopback, 1),
        "statement_us": None if trip is None else round(trip, 1),
        "durability": await database.durability(),
    }


async def loopback_us() -> float | None:
    """The time in microseconds that one byte takes to this machine and back over TCP. `None` if the
    system does not allow the connection."""
    try:
        return await _loopback_us()
    except OSError:
        return None


async def _loopback_us() -> float:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(1):
                writer.write(piece)
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.perf_counter()
        for _ in range(_ROUND_TRIPS):
            writer.write(b"x")
            await reader.readexactly(1)
        took = time.perf_counter() - began
        writer.close()
        await writer.wait_closed()
    return took / _ROUND_TRIPS * 1e6


def _cores() -> int:
    """The number of CPU cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSize:
    """The amount of work of the benchmark."""

    sessions: int = 10_000
    workers: int = 4
    concurrency: int = 32
    """The maximum number of concurrent sessions of a worker."""
    messages: int = 1000
    """The number of messages that arrive one by one in open sessions."""
    seconds: float | None = None
    """If set, messages arrive one by one for this many seconds, and `messages` is ignored."""

    def __post_init__(self) -> None:
        if self.messages > self.sessions:
            raise UserError(
                f"{self.messages} messages one by one need as many sessions, and there are "
                f"{self.sessions}: give --messages or --sessions"
            )


async def load(size: LoadSize, *, store: str | None, folder: Path, note: Note) -> dict[str, Any]:
    """Run the benchmark, and return its figures. Raises `UserError`, `WorkerEnded` and errors of
    the store.

    Without `store` the database is a SQLite file below `folder`. All data is removed at the end.
    """
    async with bench_database(store, folder) as database, open_store(database.url) as opened:
        note(f"measuring the machine and {database.engine} without Ekiden")
        limits = await machine(database, folder=folder, connections=4 * size.workers)
        load = _Load(size, database, opened, note)
        figures = await load.measure()
    bare = limits["bare_commits_per_s"]["at_once"]
    return {
        "ekiden": __version__,
        "python": platform.python_version(),
        "store": database.engine,
        "sessions": size.sessions,
        "workers": size.workers,
        "concurrency": size.concurrency,
        **figures,
        "steps_per_bare_commit": round(figures["steps_per_s"] / bare, 2),
        "machine": {**limits, "load_1min_after": round(os.getloadavg()[0], 2)},
    }


class _Load:
    def __init__(self, size: LoadSize, database: BenchDatabase, store: Store, note: Note) -> None:
        self._size = size
        self._database = database
        self._store = store
        self._note = note
        self._team = desk_team(DeskModel())
        self._messages: Counter[str] = Counter()
        """The number of messages by session."""

    async def measure(self) -> dict[str, Any]:
        size = self._size
        opening = await self._open()
        async with started_workers(
            self._database.url, workers=size.workers, concurrency=size.concurrency
        ) as workers:
            throughput = await self._drain(workers)
            latency = await self._one_by_one(workers, throughput["sessions_per_s"])
            memory = workers.rss_mb()
            counts = await workers.end()
        throughput["commits_counted_by_workers"] = sum(each["commits"] for each in counts)
        rows = await self._rows()
        return {
            **opening,
            **throughput,
            "latency_ms": latency,
            "worker_rss_mb": [round(each, 1) for each in memory],
            "bytes_per_session": round(await self._database.size() / size.sessions),
            **self._checked(rows, counts),
        }

    async def _open(self) -> dict[str, Any]:
        """Send a message to every session, before any worker runs."""
        self._note(f"opening {self._size.sessions} sessions")
        numbers = iter(range(self._size.sessions))
        began = time.perf_counter()
        await asyncio.gather(*(self._say_to_each(numbers) for _ in range(_SENDERS)))
        return {"opened_per_s": round(self._size.sessions / (time.perf_counter() - began))}

    async def _say_to_each(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            await self._say(f"s{number}")

    async def _say(self, session_id: str) -> None:
        session = Session(session_id, store=self._store)
        await submit(self._team, "where is my order?", session=session)
        self._messages[session_id] += 1

    async def _drain(self, workers: WorkerProcesses) -> dict[str, Any]:
        """Let the workers handle all sessions; returns the throughput."""
        database = self._database
        steps, cpu, server = await database.steps(), workers.cpu_s(), await database.cpu_s()
        began = time.perf_counter()
        await workers.go()
        await self._until_done(workers)
        took = time.perf_counter() - began
        cpu, server = _since(cpu, workers.cpu_s()), _since(server, await database.cpu_s())
        after = await database.steps()
        done = None if steps is None or after is None else after - steps
        sessions = self._size.sessions
        # If the database has no count: the number of steps that each session takes.
        counted = _FIRST_STEPS * sessions if done is None else done
        return {
            "took_s": round(took, 2),
            "sessions_per_s": round(sessions / took, 1),
            "steps": counted,
            "steps_counted_by": "the session" if done is None else "the database",
            "steps_per_s": round(counted / took, 1),
            "worker_cores": None if cpu is None else round(cpu / took, 2),
            "worker_cpu_us_per_step": None if cpu is None else round(cpu / counted * 1e6),
            "database_cores": None if server is None else round(server / took, 2),
            "database_cpu_us_per_step": None if server is None else round(server / counted * 1e6),
        }

    async def _until_done(self, workers: WorkerProcesses) -> None:
        noted = time.perf_counter()
        # A session stays `ready` while a worker runs it.
        while (await self._store.list(SessionFilter(status="ready"), limit=1)).sessions:
            workers.check()
            await asyncio.sleep(_POLL_S)
            if time.perf_counter() - noted > _NOTE_S:
                noted = time.perf_counter()
                steps = await self._database.steps()
                self._note("the workers are at it" + (f", {steps} steps" if steps else ""))

    async def _one_by_one(self, workers: WorkerProcesses, capacity: float) -> dict[str, Any]:
        """Send messages to open sessions at a steady rate; returns the latency."""
        size = self._size
        every_s = 1 / max(capacity * _PACE, 0.1)
        count = size.messages
        if size.seconds is not None:
            count = min(max(int(size.seconds / every_s), 1), size.sessions)
        chosen = random.Random(_SEED).sample(range(size.sessions), count)
        self._note(f"{count} messages, one each {every_s * 1e3:.1f} ms")
        sent: dict[str, int] = {}
        began, began_us = time.perf_counter(), time.time_ns() // 1000
        async with asyncio.TaskGroup() as group:
            for place, number in enumerate(chosen):
                await asyncio.sleep(began + place * every_s - time.perf_counter())
                # Measure from the planned time: sending late also makes the message wait.
                sent[f"s{number}"] = began_us + round(place * every_s * 1e6)
                group.create_task(self._say(f"s{number}"))
        pace = count / (time.perf_counter() - began)
        await self._until_done(workers)
        ended = {row.id: row.updated_at_us for row in await self._rows() if row.id in sent}
        waits = sorted((ended[each] - sent[each]) / 1e3 for each in sent)
        return {
            "messages": count,
            "messages_per_s": round(pace, 1),
            "p50": round(statistics.median(waits), 1),
            "p95": round(_quantile(waits, 0.95), 1),
            "p99": round(_quantile(waits, 0.99), 1),
            "slowest": round(waits[-1], 1),
        }

    async def _rows(self) -> list[SessionRow]:
        rows: list[SessionRow] = []
        cursor: str | None = None
        while True:
            page = await self._store.list(limit=_PAGE, cursor=cursor)
            rows += page.sessions
            cursor = page.next_cursor
            if cursor is None:
                return rows

    def _checked(
        self, rows: Sequence[SessionRow], counts: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        """Check that every message was handled exactly once.

        A message is lost if its session is not done or has too few events. It is doubled if its
        session has too many events, or if the workers counted too many model calls. Too few model
        calls are reported separately.
        """
        done = {row.id: row.seq for row in rows if (row.status, row.outcome) == ("idle", "done")}
        lost = odd = wanted = 0
        for session_id, count in self._messages.items():
            if session_id not in done:
                lost += count
                continue
            missing = _expected(count, _FIRST_EVENTS, _LATER_EVENTS) - done[session_id]
            lost += min(max(-(-missing // _LATER_EVENTS), 0), count)
            odd += missing < 0
            wanted += _expected(count, _FIRST_CALLS, _LATER_CALLS)
        calls = sum(each["model_calls"] for each in counts) - wanted
        return {
            "messages": sum(self._messages.values()),
            "lost": lost,
            "doubled": odd + max(calls, 0),
            "model_calls_missing": max(-calls, 0),
        }


def _expected(messages: int, first: int, later: int) -> int:
    """The total of `messages` messages, of which the first counts `first`."""
    return first + later * (messages - 1)


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
