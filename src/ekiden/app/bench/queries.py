"""Queries on the bus and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from ekiden.app.bench.measure import WrongAnswer, cost_of, median, round_trip_us
from ekiden.bus import Bus, Seat
from ekiden.core.messages import AgentMessage
from ekiden.storage.base import Store


async def queries(store: Store | None, *, count: int, callers: int, repeats: int) -> dict[str, Any]:
    """What a query and its answer cost, and how many times the floor that is.

    The floor is taken before and after every repetition, because the machine may be shared.
    """
    cpu, wall, ratios = [], [], []
    async with Bus(store) as bus, bus.serve("echo", _echo):
        seat = bus.agent("caller")
        await _ask(seat, count // 4 + 1, callers)
        before = (await round_trip_us(count))["cpu"]
        for _ in range(repeats):
            cost = await cost_of(lambda: _ask(seat, count, callers))
            after = (await round_trip_us(count))["cpu"]
            cpu.append(cost.cpu_s / count * 1e6)
            wall.append(cost.wall_s / count * 1e6)
            ratios.append(2 * cpu[-1] / (before + after))
            before = after
    return {
        "queries": count,
        "callers": callers,
        "cpu_us": median(cpu),
        "wall_us": median(wall),
        "x_floor": median(ratios),
    }


async def _echo(message: AgentMessage) -> Any:
    return message.payload


async def _ask(seat: Seat, count: int, callers: int) -> None:
    left = iter(range(count))
    await asyncio.gather(*(_caller(seat, left) for _ in range(callers)))


async def _caller(seat: Seat, numbers: Iterator[int]) -> None:
    for number in numbers:
        if await seat.ask("echo", "ping", number) != number:
            raise WrongAnswer(f"a wrong answer to query {number}")
