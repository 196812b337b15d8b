"""The worker processes of `ekiden bench load`, and their use of CPU and memory.

A worker process is `python -m ekiden.project.bench.load_worker STORE N`. It starts to work when it
reads `go`, stops at the end of its input, and then prints its counts as JSON.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ekiden.core.errors import EkidenError
from ekiden.core.values import dumps, loads
from ekiden.engine import Worker
from ekiden.project.bench.measure import DeskModel, desk_team
from ekiden.project.stores import open_store
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
    """Work until the input ends; returns the counts."""
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
        """`WorkerEnded` if a worker ended."""
        if any(process.returncode is not None for process in self._processes):
            raise WorkerEnded("a worker ended before its time; see above")

    def cpu_s(self) -> float | None:
        """The CPU time of all workers in seconds; `None` if unknown."""
        return sum_of(cpu_s(process.pid) for process in self._processes)

    def rss_mb(self) -> list[float]:
        """The memory of each worker in megabytes."""
        return [mb for each in self._processes if (mb := rss_mb(each.pid)) is not None]

    async def end(self) -> list[dict[str, Any]]:
        """Stop all workers; returns their counts."""
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
