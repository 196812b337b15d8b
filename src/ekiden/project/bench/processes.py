"""Processes whose cost is measured, as far as the system tells it (Linux)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ekiden.core.errors import EkidenError
from ekiden.core.values import loads
from ekiden.project.bench.load_worker import GO, READY

_PROC = Path("/proc")
_BACKEND = "postgres"


class WorkerEnded(EkidenError):
    """A worker process of the benchmark ended before its time."""

    code = "bench.worker_ended"


class WorkerProcesses:
    """The worker processes of one measurement."""

    def __init__(self, processes: list[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    async def go(self) -> None:
        """Let all begin."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{GO}\n".encode())
            await process.stdin.drain()

    def check(self) -> None:
        """`WorkerEnded` if one did."""
        if any(process.returncode is not None for process in self._processes):
            raise WorkerEnded("a worker ended before its time; see above")

    def cpu_s(self) -> float | None:
        """What they have used so far."""
        return _sum(cpu_s(process.pid) for process in self._processes)

    def rss_mb(self) -> list[float]:
        """The memory of each."""
        return [mb for each in self._processes if (mb := rss_mb(each.pid)) is not None]

    async def end(self) -> list[dict[str, Any]]:
        """Let all end; what each has done."""
        told = await asyncio.gather(*(process.communicate(b"") for process in self._processes))
        if any(process.returncode for process in self._processes):
            raise WorkerEnded("a worker failed; see above")
        return [loads(out) for out, _ in told]


@asynccontextmanager
async def crew(url: str, *, workers: int, concurrency: int) -> AsyncIterator[WorkerProcesses]:
    """So many workers over the store, connected and waiting to be told to begin."""
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
    """Seconds of CPU that a process has used, and those of its children that ended."""
    fields = _stat(pid)
    if fields is None:
        return None
    ticks = sum(map(int, fields[11:15] if with_children else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float | None:
    """The memory that a process has."""
    with suppress(OSError):
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return None


def server_cpu_s(backend: int) -> float | None:
    """Seconds that the whole PostgreSQL server has used, one of whose processes is `backend`;
    `None` if it is not on this machine."""
    with suppress(OSError):
        if (_PROC / str(backend) / "comm").read_text().strip() != _BACKEND:
            return None
        fields = _stat(backend)
        if fields is None:
            return None
        head = int(fields[1])
        below = [cpu_s(pid) for pid in _children(head)]
        return _sum([cpu_s(head, with_children=True), *(each for each in below if each)])
    return None


def _children(parent: int) -> Iterator[int]:
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            fields = _stat(int(folder.name))
            if fields is not None and int(fields[1]) == parent:
                yield int(folder.name)


def _stat(pid: int) -> list[str] | None:
    """The fields of the process's line behind its name, which may have blanks in it."""
    with suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return None


def _sum(values: Any) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
