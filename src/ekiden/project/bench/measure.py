"""The measurements, teams and scenarios of the benchmark. The models of the teams answer at
once."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden import __version__
from ekiden.bus import Bus, BusClient
from ekiden.core.agent import Agent
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.conversation.model import (
    Item,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
    user_message,
)
from ekiden.core.errors import EkidenError
from ekiden.handoff import handoff
from ekiden.runtime import Limits, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import Store
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
    """The duration of `work`. Garbage is collected before the work begins."""
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
        """The peak memory since the start, minus the memory at the start, in kilobytes. `None` if
        it is unknown."""
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
    """The median time in microseconds to write 4 KiB to a file in `folder` and to sync the file."""
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
        """Return a transfer to the other agent, or the answer after the last transfer."""
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
        """Answer according to the last item. Like a network call, the method yields to the event
        loop first."""
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
    """An agent that hands off to another agent, which has a tool."""
    specialist = Agent("specialist", model=model, tools=[lookup_order])
    return Agent("triage", model=model, handoffs=[specialist])


_UNLIMITED = RunConfig(limits=Limits(turns=None, depth=None))


async def queries(store: Store | None, *, count: int, callers: int, repeats: int) -> dict[str, Any]:
    """The cost of a query with its answer, also as a multiple of the baseline.

    The baseline is measured before and after every repetition, because the machine may be shared.
    """
    cpu, wall, ratios = [], [], []
    async with Bus(store) as bus, bus.serve("echo", _echo):
        client = bus.agent("caller")
        await _ask(client, count // 4 + 1, callers)
        before = (await round_trip_us(count))["cpu"]
        for _ in range(repeats):
            cost = await cost_of(lambda: _ask(client, count, callers))
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


async def _ask(client: BusClient, count: int, callers: int) -> None:
    left = iter(range(count))
    await asyncio.gather(*(_caller(client, left) for _ in range(callers)))


async def _caller(client: BusClient, numbers: Iterator[int]) -> None:
    for number in numbers:
        if await client.ask("echo", "ping", number) != number:
            raise WrongAnswer(f"a wrong answer to query {number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The amount of work in each benchmark scenario."""

    repeats: int = 7
    handoffs: int = 50
    sessions: int = 1000
    durable_sessions: int = 200
    history: int = 5000
    round_trips: int = 20_000
    queries: int = 4000
    callers: int = 128

    @classmethod
    def quick(cls) -> Sizes:
        """A small amount of work, to check that everything works. The figures are not
        meaningful."""
        return cls(
            repeats=2,
            handoffs=5,
            sessions=20,
            durable_sessions=10,
            history=50,
            round_trips=500,
            queries=100,
            callers=16,
        )


async def bench(
    names: Sequence[str],
    sizes: Sizes,
    folder: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run the scenarios, and return their figures. The scenarios S4 and S5 write files below
    `folder`. `progress` is called with a text before each scenario."""
    before = await round_trip_us(sizes.round_trips)
    figures = {}
    for number, name in enumerate(names, 1):
        progress(f"measuring {name}, {number} of {len(names)}")
        figures[name] = await SCENARIOS[name](sizes, folder)
    after = await round_trip_us(sizes.round_trips)
    floor = (before["cpu"] + after["cpu"]) / 2
    for figure in figures.values():
        if "cpu_us" in figure and "x_floor" not in figure:
            figure["x_floor"] = round(figure["cpu_us"] / floor, 1)
    return {
        "ekiden": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "load_1min": round(os.getloadavg()[0], 2),
        "floor_us": {"before": before, "after": after},
        "scenarios": figures,
    }


async def s1_chain(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """The cost of each handoff in one run with many handoffs. The cost of the run's start and
    answer is included."""
    model = RelayModel()
    agent = ring(model)
    costs = [await _run_ring(agent, model, sizes.handoffs, []) for _ in range(sizes.repeats + 1)][
        1:
    ]
    return {
        "handoffs": sizes.handoffs,
        "cpu_us": median([cost.cpu_s / sizes.handoffs * 1e6 for cost in costs]),
        "wall_us": median([cost.wall_s / sizes.handoffs * 1e6 for cost in costs]),
    }


async def s2_many(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """The cost of a session in memory among many concurrent sessions."""
    agent = desk_team(DeskModel())
    await _desk_session(agent, None)
    memory = ProcessMemory()
    cost = await _at_once(sizes.sessions, lambda: _desk_session(agent, None))
    peak = memory.peak_kb()
    return {
        "sessions": sizes.sessions,
        "cpu_us": round(cost.cpu_s / sizes.sessions * 1e6, 1),
        "sessions_per_s": round(sizes.sessions / cost.wall_s),
        "peak_kb_per_session": None if peak is None else round(peak / sizes.sessions, 1),
    }


async def s3_history(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """The cost of a handoff in a long conversation, compared with a short one."""
    model = RelayModel()
    agent = ring(model)
    short, long = _history(10), _history(sizes.history)
    short_us = [await _one_more(agent, model, sizes, short) for _ in range(sizes.repeats + 1)][1:]
    long_us = [await _one_more(agent, model, sizes, long) for _ in range(sizes.repeats + 1)][1:]
    return {
        "messages": [len(short), len(long)],
        "handoff_cpu_us": [median(short_us), median(long_us)],
        "ratio": round(median(long_us) / max(median(short_us), 0.01), 2),
    }


async def s4_durable(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Many concurrent sessions on disk, with every step synced."""
    from ekiden.storage.sqlite import SqliteStore

    agent = desk_team(DeskModel())
    count = sizes.durable_sessions
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = Path(name)
        probe = [await asyncio.to_thread(fsync_us, path)]
        async with SqliteStore(path / "bench.db") as store:
            await _desk_session(agent, store)
            cost = await _at_once(count, lambda: _desk_session(agent, store))
        probe.append(await asyncio.to_thread(fsync_us, path))
        size = await asyncio.to_thread(_size, path)
    return {
        "sessions": count,
        "sessions_per_s": round(count / cost.wall_s),
        "cpu_us": round(cost.cpu_s / count * 1e6, 1),
        "bytes_per_session": round(size / (count + 1)),
        "fsync_us": [round(each, 1) for each in probe],
    }


async def s5_bus(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Queries on the bus, in memory and on disk, one by one and concurrently."""
    from ekiden.storage.sqlite import SqliteStore

    async def cost(store: Store | None, count: int, callers: int) -> dict[str, Any]:
        return await queries(store, count=count, callers=callers, repeats=sizes.repeats)

    in_memory = await cost(None, sizes.queries, 1)
    burst = await cost(None, sizes.queries // 4, sizes.queries // 4)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = Path(name)
        probe = round(await asyncio.to_thread(fsync_us, path), 1)
        async with SqliteStore(path / "bench.db") as store:
            stored = await cost(store, sizes.queries, sizes.callers)
            one_by_one = await cost(store, sizes.queries // 16, 1)
    return {
        **in_memory,
        "at_once": burst,
        "stored": {**stored, "fsync_us": probe},
        "stored_one_by_one": {**one_by_one, "fsync_us": probe},
    }


SCENARIOS: dict[str, Callable[[Sizes, Path], Awaitable[dict[str, Any]]]] = {
    "s1": s1_chain,
    "s2": s2_many,
    "s3": s3_history,
    "s4": s4_durable,
    "s5": s5_bus,
}


async def _run_ring(agent: Any, model: RelayModel, handoffs: int, history: list[Item]) -> Cost:
    model.left, model.calls = handoffs, 0
    outputs: list[Any] = []

    async def work() -> None:
        given = [*history, user_message("go")]
        outputs.append((await Runner.run(agent, given, run_config=_UNLIMITED)).final_output)

    cost = await cost_of(work)
    if outputs != [ANSWER] or model.calls != handoffs + 1 or model.seen <= len(history):
        raise WrongAnswer(f"{outputs} after {model.calls} model calls")
    return cost


async def _one_more(agent: Any, model: RelayModel, sizes: Sizes, history: list[Item]) -> float:
    """CPU microseconds of a handoff, without the cost of a run that has none."""
    without = await _run_ring(agent, model, 0, history)
    with_them = await _run_ring(agent, model, sizes.handoffs, history)
    return (with_them.cpu_s - without.cpu_s) / sizes.handoffs * 1e6


async def _desk_session(agent: Any, store: Store | None) -> None:
    session = None if store is None else Session(store=store)
    result = await Runner.run(agent, "where is my order?", session=session, run_config=_UNLIMITED)
    if result.final_output != ANSWER:
        raise WrongAnswer(repr(result))


async def _at_once(count: int, work: Callable[[], Awaitable[None]]) -> Cost:
    async def all_of_them() -> None:
        await asyncio.gather(*(work() for _ in range(count)))

    return await cost_of(all_of_them)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _history(length: int) -> list[Item]:
    text = "a parcel, an order and an invoice " * 6
    return [
        user_message(f"{number}: {text}") if number % 2 == 0 else assistant_message(text)
        for number in range(length)
    ]
