"""Measurements of the benchmark, and its teams, whose models answer at once."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
)
from ekiden.core.errors import EkidenError
from ekiden.handoff import handoff
from ekiden.tools import function_tool


class WrongAnswer(EkidenError):
    """A benchmark run gave a wrong answer, so its time does not count."""

    code = "bench.wrong_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The duration of some work, in seconds."""

    wall_s: float
    cpu_s: float
    """The CPU time of all threads. Compare this figure on a shared machine."""


async def cost_of(work: Callable[[], Awaitable[Any]]) -> Cost:
    """The duration of `work`; garbage is collected before it begins."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return Cost(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)


async def round_trip_us(trips: int) -> dict[str, float]:
    """The baseline: one request through an `asyncio.Queue`, answered through a `Future`."""
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
    """The median, rounded to two places."""
    return round(statistics.median(values), 2)


class ProcessMemory:
    """The memory of this process; unknown on systems other than Linux."""

    _STATUS = Path("/proc/self/status")
    _RESET = Path("/proc/self/clear_refs")

    def __init__(self) -> None:
        gc.collect()
        with suppress(OSError):
            self._RESET.write_text("5")
        self._before = self._kb("VmRSS")

    def peak_kb(self) -> int | None:
        """The peak since the start, minus the memory at the start; `None` if unknown."""
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


ANSWER = "done"


class RelayModel:
    """A model that hands off `left` times and then answers."""

    def __init__(self) -> None:
        self.left = 0
        self.calls = 0
        self.seen = 0
        """The number of items in the last request."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the next transfer or the answer, depending only on the count."""
        self.calls += 1
        self.seen = len(request.input)
        if self.left == 0:
            yield ModelResponse([assistant_message(ANSWER)])
            return
        self.left -= 1
        target = "b" if request.agent == "a" else "a"
        yield ModelResponse([function_call(f"call_{self.calls}", f"transfer_to_{target}", "{}")])


class DeskModel:
    """A model that hands off, looks up an order, and answers."""

    def __init__(self) -> None:
        self.calls = 0

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer depending on the last item. Yields to the event loop first, like a network
        call."""
        await asyncio.sleep(0)
        self.calls += 1
        call_id = f"call_{self.calls}"
        if request.agent == "triage":
            yield ModelResponse([function_call(call_id, "transfer_to_specialist", "{}")])
        elif request.input[-1].get("type") == "function_call_output" and self._looked_up(request):
            yield ModelResponse([assistant_message(ANSWER)])
        else:
            yield ModelResponse([function_call(call_id, "lookup_order", '{"order_id":"A-42"}')])

    @staticmethod
    def _looked_up(request: ModelRequest) -> bool:
        return "shipped" in str(request.input[-1].get("output"))


@function_tool
async def lookup_order(order_id: str) -> str:
    """Find an order."""
    return f"{order_id}: shipped"


def ring(model: RelayModel) -> Agent[Any]:
    """Two agents that hand off to each other."""
    first = Agent("a", model=model)
    back = handoff(first, allow_return="always")
    first.handoffs.append(handoff(Agent("b", model=model, handoffs=[back]), allow_return="always"))
    return first


def desk_team(model: DeskModel) -> Agent[Any]:
    """An agent that hands off to another one, which has a tool."""
    specialist = Agent("specialist", model=model, tools=[lookup_order])
    return Agent("triage", model=model, handoffs=[specialist])
