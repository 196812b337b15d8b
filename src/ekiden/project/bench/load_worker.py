"""The worker processes of `ekiden bench load`, and its databases.

A worker process is `python -m ekiden.project.bench.load_worker STORE N`. The process starts to work
when it reads `go`, stops at the end of its input, and then prints its counts as JSON.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

from ekiden.core.errors import EkidenError, UserError
from ekiden.core.values import dumps, loads
from ekiden.engine import Worker
from ekiden.project.bench.measure import DeskModel, desk_team
from ekiden.project.stores import open_store, sqlite_path
from ekiden.storage.base import Claim, Commit, Store

READY = "ready"
GO = "go"


class CommitCounter:
    """Counts the commits of a store."""

    def __init__(self, store: Store) -> None:
        self.commits = 0
        self._commit = store.commit
        # Replaces the method on the store itself, which the engine gets.
        vars(store)["commit"] = self.commit

    async def commit(self, claim: Claim, commit: Commit) -> None:
        """Commit, and count the commit if it succeeded."""
        await self._commit(claim, commit)
        self.commits += 1


async def work(url: str, concurrency: int) -> dict[str, Any]:
    """Work until the input ends, and return the counts."""
    loop = asyncio.get_running_loop()
    model = DeskModel()
    async with open_store(url) as store:
        counter = CommitCounter(store)
        worker = Worker(store, desk_team(model), concurrency=concurrency)
        print(READY, flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        began = time.process_time()
        running = asyncio.create_task(worker.run())
        await loop.run_in_executor(None, sys.stdin.read)
        worker.stop()
        await running
        return {
            "outcomes": worker.finished,
            "commits": counter.commits,
            "model_calls": model.calls,
            "cpu_s": time.process_time() - began,
        }


PROC = Path("/proc")


class WorkerEnded(EkidenError):
    """A worker process of the benchmark ended early."""

    code = "bench.worker_ended"


class WorkerProcesses:
    """The worker processes of one measurement."""

    def __init__(self, processes: list[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    async def go(self) -> None:
        """Let all workers start."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{GO}\n".encode())
            await process.stdin.drain()

    def check(self) -> None:
        """Raise `WorkerEnded` if a worker process ended early."""
        if any(process.returncode is not None for process in self._processes):
            raise WorkerEnded("a worker ended before its time; see above")

    def cpu_s(self) -> float | None:
        """The CPU time of all workers in seconds; `None` if unknown."""
        return sum_of(cpu_s(process.pid) for process in self._processes)

    def rss_mb(self) -> list[float]:
        """The memory of each worker in megabytes."""
        return [mb for each in self._processes if (mb := rss_mb(each.pid)) is not None]

    async def end(self) -> list[dict[str, Any]]:
        """Stop all workers, and return their counts."""
        outputs = await asyncio.gather(*(process.communicate(b"") for process in self._processes))
        if any(process.returncode for process in self._processes):
            raise WorkerEnded("a worker failed; see above")
        return [loads(out) for out, _ in outputs]


@asynccontextmanager
async def started_workers(
    url: str, *, workers: int, concurrency: int
) -> AsyncIterator[WorkerProcesses]:
    """Worker processes on the store, connected and waiting for `go`."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "ekiden.project.bench.load_worker",
        url,
        str(concurrency),
    ]
    processes = []
    try:
        for _ in range(workers):
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if (await process.stdout.readline()).decode().strip() != READY:
                raise WorkerEnded("a worker could not begin; see above")
        yield WorkerProcesses(processes)
    finally:
        for process in processes:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


def cpu_s(pid: int, *, with_children: bool = False) -> float | None:
    """The CPU time of a process in seconds, optionally with its ended children; `None` if
    unknown."""
    fields = process_stat(pid)
    if fields is None:
        return None
    ticks = sum(map(int, fields[11:15] if with_children else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float | None:
    """The memory of a process in megabytes; `None` if unknown."""
    with suppress(OSError):
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return None


def process_stat(pid: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` after the name, which may contain blanks."""
    with suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return None


def sum_of(values: Any) -> float | None:
    """The sum; `None` if a value is unknown."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def main() -> None:
    """Run the worker, and print its counts."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    print(dumps(asyncio.run(work(sys.argv[1], int(sys.argv[2])))), flush=True)


if __name__ == "__main__":
    main()


_BACKEND = "postgres"
_PROBE_S = 1.0
_ROUND_TRIPS = 500
_NOTE = "x" * 200


class BenchDatabase(ABC):
    """The database of a benchmark."""

    engine: str
    url: str
    """The address of the store."""

    @abstractmethod
    async def steps(self) -> int | None:
        """The number of stored commits of sessions; `None` if the database has no count."""

    @abstractmethod
    async def size(self) -> int:
        """The size of all tables and indexes, in bytes."""

    @abstractmethod
    async def cpu_s(self) -> float | None:
        """The CPU time of the server in seconds; `None` without a server on this machine."""

    @abstractmethod
    async def bare_commits(self, connections: int) -> float:
        """The number of small inserts per second without Ekiden, each in its own transaction."""

    @abstractmethod
    async def round_trip_us(self) -> float | None:
        """The duration of an empty statement in microseconds; `None` without a server."""

    @abstractmethod
    async def durability(self) -> dict[str, str]:
        """The settings of the database for durable commits."""


@asynccontextmanager
async def bench_database(store: str | None, folder: Path) -> AsyncIterator[BenchDatabase]:
    """An empty store for a benchmark: its own schema, or a file below `folder`. It is removed at
    the end."""
    if store is not None and sqlite_path_or_none(store) is None:
        if store == "memory:":
            raise UserError("workers are processes: they cannot share memory:; name a database")
        async with _postgres(store) as found:
            yield found
        return
    place = folder if store is None else (sqlite_path(store) or folder).parent
    path = place / f"bench-load-{secrets.token_hex(4)}.db"
    try:
        yield SqliteDatabase(path)
    finally:
        for file in place.glob(f"{path.name}*"):
            file.unlink()


def sqlite_path_or_none(store: str) -> Path | None:
    """The file of a store's address; `None` for another kind of address."""
    return None if store == "memory:" else sqlite_path(store)


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[BenchDatabase]:
    from ekiden.storage.postgres.address import parse_address
    from ekiden.storage.postgres.database import asyncpg

    schema = f"ekiden_bench_{secrets.token_hex(4)}"
    address = parse_address(url, schema)
    joint = "&" if "?" in address.dsn else "?"
    own = f"{address.dsn}{joint}schema={schema}"
    async with open_store(own):
        pass
    settings = {"search_path": schema, "client_min_messages": "warning"}
    connection = await asyncpg.connect(address.dsn, server_settings=settings)
    try:
        yield PostgresDatabase(own, address.dsn, schema, connection)
    finally:
        await connection.execute(f"drop schema if exists {schema} cascade", timeout=600)
        await connection.close()


class PostgresDatabase(BenchDatabase):
    """A schema of a PostgreSQL database."""

    engine = "postgresql"

    def __init__(self, url: str, dsn: str, schema: str, connection: Any) -> None:
        self.url = url
        self._dsn = dsn
        self._schema = schema
        self._connection = connection

    async def steps(self) -> int | None:
        # One commit of a session is one transaction.
        sql = "select count(*) from (select distinct session, xid from events) as steps"
        count: int = await self._connection.fetchval(sql, timeout=600)
        return count

    async def size(self) -> int:
        sql = """
            select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
            from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname = $1 and c.relkind = 'r'"""
        size: int = await self._connection.fetchval(sql, self._schema)
        return size

    async def cpu_s(self) -> float | None:
        return server_cpu_s(await self._connection.fetchval("select pg_backend_pid()"))

    async def bare_commits(self, connections: int) -> float:
        from ekiden.storage.postgres.database import asyncpg

        await self._connection.execute("create table if not exists probe (note text)")
        settings = {"search_path": self._schema, "synchronous_commit": "on"}
        several = [
            await asyncpg.connect(self._dsn, server_settings=settings) for _ in range(connections)
        ]

        async def insert(connection: Any, until: float) -> int:
            done = 0
            while time.perf_counter() < until:
                await connection.execute("insert into probe values ($1)", _NOTE)
                done += 1
            return done

        try:
            began = time.perf_counter()
            counts = await asyncio.gather(*(insert(each, began + _PROBE_S) for each in several))
            return sum(counts) / (time.perf_counter() - began)
        finally:
            for connection in several:
                await connection.close()

    async def round_trip_us(self) -> float | None:
        began = time.perf_counter()
        for _ in range(_ROUND_TRIPS):
            await self._connection.fetchval("select 1")
        return (time.perf_counter() - began) / _ROUND_TRIPS * 1e6

    async def durability(self) -> dict[str, str]:
        # These are the server's settings. The store sets synchronous commits on each connection.
        names = ("fsync", "synchronous_commit")
        return {name: await self._connection.fetchval(f"show {name}") for name in names}


class SqliteDatabase(BenchDatabase):
    """A SQLite file."""

    engine = "sqlite"

    def __init__(self, path: Path) -> None:
        self.url = str(path)
        self._path = path

    async def steps(self) -> int | None:
        return None  # Many sessions share a transaction, which is not recorded.

    async def size(self) -> int:
        return sum(file.stat().st_size for file in self._path.parent.glob(f"{self._path.name}*"))

    async def cpu_s(self) -> float | None:
        return None

    async def bare_commits(self, connections: int) -> float:
        return await asyncio.to_thread(self._insert)

    def _insert(self) -> float:
        import sqlite3  # Worker processes, whose memory is measured, do without it.

        path = self._path.with_name(f"{self._path.name}-probe")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            connection.execute("create table if not exists probe (note text)")
            began, done = time.perf_counter(), 0
            while time.perf_counter() < began + _PROBE_S:
                connection.execute("insert into probe values (?)", (_NOTE,))
                done += 1
            took = time.perf_counter() - began
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        return done / took

    async def round_trip_us(self) -> float | None:
        return None

    async def durability(self) -> dict[str, str]:
        return {"synchronous": "full"}


def server_cpu_s(backend: int) -> float | None:
    """The CPU time of the whole PostgreSQL server in seconds. `backend` is one of its processes.
    `None` if the server is not on this machine."""
    with suppress(OSError):
        if (PROC / str(backend) / "comm").read_text().strip() != _BACKEND:
            return None
        fields = process_stat(backend)
        if fields is None:
            return None
        head = int(fields[1])
        below = [cpu_s(pid) for pid in _children(head)]
        return sum_of([cpu_s(head, with_children=True), *(each for each in below if each)])
    return None


def _children(parent: int) -> Iterator[int]:
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            fields = process_stat(int(folder.name))
            if fields is not None and int(fields[1]) == parent:
                yield int(folder.name)
