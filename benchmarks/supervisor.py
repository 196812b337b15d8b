"""How much longer a plan takes than its slowest task: prints JSON.

    python benchmarks/supervisor.py [--tasks 10] [--seconds 0.5] [--store memory|FILE] [--repeat 5]

Every task is an agent that is code and waits for so many seconds, so that what is beyond them is
what Ekiden adds: splitting by a fixed decomposer, a session for each task, the stored results, and
putting them together without a model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

from ekiden import Agent, AgentTask, MemoryStore, Session, SqliteStore, Supervisor
from ekiden.core.plan import TaskDecomposition


class Even:
    """As many tasks as it is told, for one agent."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def decompose(self, text: str, **_: Any) -> TaskDecomposition:
        tasks = [AgentTask(agent="worker", description=f"part {n}") for n in range(self.count)]
        return TaskDecomposition(tasks=tuple(tasks))


async def measure(count: int, seconds: float, where: str, repeat: int) -> Sequence[float]:
    """Seconds of whole plans, after one that is not counted."""

    async def work(ctx: Any) -> str:
        await asyncio.sleep(seconds)
        return "done"

    boss = Supervisor(
        "boss",
        agents=[Agent("worker", run=work)],
        decomposer=Even(count),
        concurrency=count,
        max_tasks=count,
    )
    store = MemoryStore() if where == "memory" else SqliteStore(where)
    times = []
    async with store:
        for _ in range(repeat + 1):
            began = time.perf_counter()
            state = await boss.run("go", session=Session(store=store))
            times.append(time.perf_counter() - began)
            assert len(state.results) == count
    return times[1:]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--store", default="memory")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    times = asyncio.run(measure(given.tasks, given.seconds, given.store, given.repeat))
    allowed = 1.1 * given.seconds + 0.005
    print(
        json.dumps(
            {
                "tasks": given.tasks,
                "slowest_s": given.seconds,
                "store": given.store,
                "median_s": round(statistics.median(times), 4),
                "worst_s": round(max(times), 4),
                "allowed_s": round(allowed, 4),
                "within": max(times) <= allowed,
            }
        )
    )


if __name__ == "__main__":
    main()
