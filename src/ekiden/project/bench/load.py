"""`ekiden bench load`: many open sessions in one database, and worker processes that share them.

First all sessions get a message without any worker; then the workers handle them, and nothing else
runs: this is the throughput. Then messages arrive one by one, at a fraction of that rate, in
sessions that were open before: this is the latency.
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
from ekiden.project.bench.measure import fsync_us
from ekiden.project.bench.statistics import Books, WorkerProcesses, books, crew
from ekiden.project.bench.teams import Desk, desk
from ekiden.project.stores import open_store
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, SessionRow, Store

Note = Callable[[str], None]

_FIRST_CALLS, _LATER_CALLS = 3, 2
"""Of a message: the handoff, the tool, the answer; later ones go to whom it was handed to."""
_FIRST_EVENTS, _LATER_EVENTS = 10, 6
"""That a message leaves in its session."""
_FIRST_STEPS = 4
_HANDS = 16
_LOOK_S = 0.1
_TELL_S = 5.0
_PAGE = 1000
_PACE = 0.5
"""The part of what the workers can do at which messages come one by one."""
_SEED = 11

_ROUND_TRIPS = 1000


async def machine(database: Books, *, folder: Path, connections: int) -> dict[str, Any]:
    """The limits that figures of a load are to be read beside."""
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
    """One byte to this machine itself and back, over TCP; `None` where that is not allowed."""
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
    """Those that this process may use."""
    count = getattr(os, "sched_getaffinity", None)
    return len(count(0)) if count is not None else os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSize:
    """How much work it is."""

    sessions: int = 10_000
    workers: int = 4
    concurrency: int = 32
    """Sessions that a worker has under way at a time."""
    messages: int = 1000
    """How many come one by one, to sessions that are open."""
    seconds: float | None = None
    """For how long they come, instead of how many."""

    def __post_init__(self) -> None:
        if self.messages > self.sessions:
            raise UserError(
                f"{self.messages} messages one by one need as many sessions, and there are "
                f"{self.sessions}: give --messages or --sessions"
            )


async def load(size: LoadSize, *, store: str | None, folder: Path, note: Note) -> dict[str, Any]:
    """Measure; `UserError`, `WorkerEnded`, or what the store raises.

    Without `store` the database is a SQLite file below `folder`. It is all gone afterwards.
    """
    async with books(store, folder) as database, open_store(database.url) as opened:
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
    def __init__(self, size: LoadSize, database: Books, store: Store, note: Note) -> None:
        self._size = size
        self._database = database
        self._store = store
        self._note = note
        self._team = desk(Desk())
        self._messages: Counter[str] = Counter()
        """By session, how many it got."""

    async def measure(self) -> dict[str, Any]:
        size = self._size
        opening = await self._open()
        async with crew(
            self._database.url, workers=size.workers, concurrency=size.concurrency
        ) as workers:
            throughput = await self._drain(workers)
            latency = await self._one_by_one(workers, throughput["sessions_per_s"])
            memory = workers.rss_mb()
            told = await workers.end()
        throughput["commits_counted_by_workers"] = sum(each["commits"] for each in told)
        rows = await self._rows()
        return {
            **opening,
            **throughput,
            "latency_ms": latency,
            "worker_rss_mb": [round(each, 1) for each in memory],
            "bytes_per_session": round(await self._database.size() / size.sessions),
            **self._checked(rows, told),
        }

    async def _open(self) -> dict[str, Any]:
        """Send a message to every session, before any worker runs."""
        self._note(f"opening {self._size.sessions} sessions")
        numbers = iter(range(self._size.sessions))
        began = time.perf_counter()
        await asyncio.gather(*(self._say_to_each(numbers) for _ in range(_HANDS)))
        return {"opened_per_s": round(self._size.sessions / (time.perf_counter() - began))}

    async def _say_to_each(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            await self._say(f"s{number}")

    async def _say(self, session_id: str) -> None:
        session = Session(session_id, store=self._store)
        await submit(self._team, "where is my order?", session=session)
        self._messages[session_id] += 1

    async def _drain(self, workers: WorkerProcesses) -> dict[str, Any]:
        """The workers have all sessions to themselves."""
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
        # Without a count of the database: what a session takes, as its workers count it.
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
        told = time.perf_counter()
        while (await self._store.list(SessionFilter(status="ready"), limit=1)).sessions:
            workers.check()
            await asyncio.sleep(_LOOK_S)
            if time.perf_counter() - told > _TELL_S:
                told = time.perf_counter()
                steps = await self._database.steps()
                self._note("the workers are at it" + (f", {steps} steps" if steps else ""))

    async def _one_by_one(self, workers: WorkerProcesses, capacity: float) -> dict[str, Any]:
        """Messages at a steady pace, to sessions that are open."""
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
                # Whoever sends it late makes it wait too.
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
        self, rows: Sequence[SessionRow], told: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        """Whether every message came to one outcome.

        A message is lost if its session is not done, or has fewer events than as many messages
        leave, and doubled if something was done for it more than once: an event, or a model call,
        of which the workers count each. A call too few is told beside them.
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
        calls = sum(each["model_calls"] for each in told) - wanted
        return {
            "messages": sum(self._messages.values()),
            "lost": lost,
            "doubled": odd + max(calls, 0),
            "model_calls_missing": max(-calls, 0),
        }


def _expected(messages: int, first: int, later: int) -> int:
    """What so many messages to one session leave, if the first leaves `first`."""
    return first + later * (messages - 1)


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
