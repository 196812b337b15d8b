"""How figures are taken, and what one durable write costs on this disk."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.core.errors import EkidenError


class WrongAnswer(EkidenError):
    """A run did not do what it was told to: its time must not be counted."""

    code = "bench.wrong_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds that something took."""

    wall_s: float
    cpu_s: float
    """Of all threads: the figure to compare on a shared machine."""


async def cost_of(work: Callable[[], Awaitable[Any]]) -> Cost:
    """Do the work once; garbage is collected before, and as usual meanwhile."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return Cost(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)


async def round_trip_us(trips: int) -> dict[str, float]:
    """The floor: one request through an `asyncio.Queue`, answered through a `Future`."""
    loop = asyncio.get_running_loop()
    requests: asyncio.Queue[asyncio.Future[int] | None] = asyncio.Queue()

    async def answer() -> None:
        while (request := await requests.get()) is not None:
            request.set_result(1)

    async def ask() -> None:
        for _ in range(trips):
            reply: asyncio.Future[int] = loop.create_future()
            requests.put_nowait(reply)
            await reply

    async with asyncio.TaskGroup() as group:
        group.create_task(answer())
        cost = await cost_of(ask)
        requests.put_nowait(None)
    return {"wall": median([cost.wall_s / trips * 1e6]), "cpu": median([cost.cpu_s / trips * 1e6])}


def median(values: Sequence[float]) -> float:
    """The middle one, rounded to what is meaningful."""
    return round(statistics.median(values), 2)


class ProcessMemory:
    """The process's memory, where the system tells it (Linux); elsewhere nothing is known."""

    _STATUS = Path("/proc/self/status")
    _RESET = Path("/proc/self/clear_refs")

    def __init__(self) -> None:
        gc.collect()
        with suppress(OSError):
            self._RESET.write_text("5")
        self._before = self._kb("VmRSS")

    def peak_kb(self) -> int | None:
        """The most that was used above what was used in the beginning."""
        peak = self._kb("VmHWM")
        return None if peak is None or self._before is None else peak - self._before

    def _kb(self, field: str) -> int | None:
        with suppress(OSError):
            for line in self._STATUS.read_text().splitlines():
                name, _, value = line.partition(":")
                if name == field:
                    return int(value.split()[0])
        return None


def fsync_us(folder: Path, *, writes: int = 20) -> float:
    """Median microseconds of writing 4 KiB to a file in `folder` and syncing it."""
    block = b"\0" * 4096
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(writes):
            began = time.perf_counter_ns()
            file.write(block)
            os.fsync(file.fileno())
            taken.append((time.perf_counter_ns() - began) / 1000)
    return statistics.median(taken)
