"""Ekiden in S5 of the peers' benchmark (`../shared/bench`): put its folder on PYTHONPATH.

    PYTHONPATH=../shared/bench python benchmarks/ekiden_bus.py --peer ekiden
    PYTHONPATH=../shared/bench python benchmarks/ekiden_bus.py --peer ekiden --variant stored

Shapes as in `s5_bus.py`: `serial` (one in flight) and `burst` (as many as `--in-flight`). Variants:
`default` (in memory), `stored` (SQLite, WAL, synchronous=FULL: a query is stored before it is
delivered, and so is its answer). To each shape belongs `x_floor`, taken against the floor right
before and after each repetition.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

from harness import args, emit, floor_us

from ekiden.bus import Bus, BusClient
from ekiden.core.conversation.messages import AgentMessage
from ekiden.project.bench.measure import round_trip_us

ns = args(
    __doc__ or "",
    n=(int, 5000, "round trips per repetition"),
    reps=(int, 5, "repetitions"),
    in_flight=(int, 128, "burst width"),
    folder=(str, None, "the disk for the variant `stored`"),
)


class Ekiden:
    """What `emit` wants to know."""

    def versions(self) -> dict[str, str]:
        return {"ekiden": version("ekiden")}


async def echo(message: AgentMessage) -> Any:
    return message.payload


async def serial(seat: BusClient, n: int) -> None:
    for i in range(n):
        if await seat.ask("echo", "ping", i) != i:
            raise AssertionError("wrong reply")


async def burst(seat: BusClient, n: int) -> None:
    numbers = iter(range(n))

    async def caller() -> None:
        for i in numbers:
            if await seat.ask("echo", "ping", i) != i:
                raise AssertionError("wrong reply")

    await asyncio.gather(*(caller() for _ in range(ns.in_flight)))


async def timed(
    shape: Callable[[BusClient, int], Awaitable[None]], seat: BusClient
) -> dict[str, float]:
    await shape(seat, 1000)
    wall, cpu, ratios = [], [], []
    for _ in range(ns.reps):
        before = (await round_trip_us(ns.n))["cpu"]
        c, t = time.process_time(), time.perf_counter()
        await shape(seat, ns.n)
        wall.append((time.perf_counter() - t) / ns.n * 1e6)
        cpu.append((time.process_time() - c) / ns.n * 1e6)
        after = (await round_trip_us(ns.n))["cpu"]
        ratios.append(2 * cpu[-1] / (before + after))
    return {
        "wall_us": statistics.median(wall),
        "cpu_us": statistics.median(cpu),
        "min_wall_us": min(wall),
        "per_s": 1e6 / statistics.median(wall),
        "x_floor": statistics.median(ratios),
    }


async def measure() -> dict[str, dict[str, float]]:
    async with AsyncExitStack() as exits:
        store = None
        if ns.variant == "stored":
            from ekiden.storage.sqlite import SqliteStore

            folder = exits.enter_context(tempfile.TemporaryDirectory(dir=ns.folder))
            store = await exits.enter_async_context(SqliteStore(f"{folder}/ekiden.db"))
        bus = await exits.enter_async_context(Bus(store))
        await exits.enter_async_context(bus.serve("echo", echo))
        seat = bus.agent("caller")
        return {"serial": await timed(serial, seat), "burst": await timed(burst, seat)}


before = floor_us()
fields = asyncio.run(measure())
emit("s5", ns, Ekiden(), floor_us=[before, floor_us()], **fields)
