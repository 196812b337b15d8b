"""The groups of scenarios that the gate measures, after the imports that `child.py` measures."""

from __future__ import annotations

import asyncio
import gc
import json
import selectors
import signal
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from ekiden import Agent, RunConfig, Runner, Session, Team, function_tool
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
)
from ekiden.project.bench import SCENARIOS, Sizes, measure
from ekiden.storage.sqlite import SqliteStore

ROUND_TRIPS: Final = 300
HANDOFFS: Final = 20
SESSIONS: Final = 20
REQUESTS: Final = 5
APPROVALS: Final = 3
WARM_ROUNDS: Final = 4
"""Rounds of the server before the first measured one. The first requests cost more."""
TRACED: Final = 200
"""The number of sessions whose memory is measured."""
STORED: Final = 500
"""The number of sessions whose bytes on disk are measured."""


class Measure(Protocol):
    """Measures a ``with`` block, as `units` units of the scenario `name`."""

    def __call__(self, name: str, units: int = 1) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """How the spans of a group are measured."""

    span: Measure
    begin: Callable[[], None]
    """Called before the first span, when everything is imported."""
    rounds: int
    has_floors: bool
    """Whether each round includes the floor."""


def run(group: str, folder: str, meter: Meter) -> dict[str, float]:
    """Run the scenarios of the group. Returns the values that are not spans."""
    loop = IdleClockLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        match group:
            case "library":
                runner.run(_library(Path(folder), meter))
            case "server":
                runner.run(_server(Path(folder), meter, loop))
            case "memory":
                return runner.run(_memory(Path(folder)))
            case _:
                meter.begin()
                runner.run(_floor(meter.span))
    return {}


class IdleSelector(selectors.DefaultSelector):
    """Adds up how long the event loop had nothing to do until the next timer."""

    idle_s = 0.0
    jumps = False
    """Whether such a time passes at once."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Wait for events, and add the time if there was none."""
        found = super().select(0 if self.jumps else timeout)
        if timeout is not None and not found:
            self.idle_s += timeout
        return found


class IdleClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while there is work. So the amount of periodic work
    does not depend on the speed of the machine."""

    def __init__(self) -> None:
        self._idle = IdleSelector()
        super().__init__(self._idle)

    def time(self) -> float:
        """The idle time in seconds."""
        return self._idle.idle_s

    async def settle(self) -> None:
        """Let 50 ms pass as soon as there is nothing to do. So the work that follows a
        response belongs to its span, and concurrent work has ended."""
        self._idle.jumps = True
        await asyncio.sleep(0.05)
        self._idle.jumps = False


async def _floor(span: Measure) -> None:
    _costs_are(partial(span, "floor", ROUND_TRIPS))
    await measure.round_trip_us(ROUND_TRIPS)


def _costs_are(measuring: Callable[[], AbstractContextManager[None]]) -> None:
    """Let `ekiden bench` measure its work with `measuring` instead of clocks."""

    async def cost_of(work: Callable[[], Awaitable[Any]]) -> measure.Cost:
        gc.collect()
        with measuring():
            await work()
        return measure.Cost(wall_s=1, cpu_s=1)

    measure.cost_of = cost_of


def _unmeasured(name: str, units: int = 1) -> AbstractContextManager[None]:
    return nullcontext()


async def _library(folder: Path, meter: Meter) -> None:
    """S1, S2 and S4 of `ekiden bench`."""
    await _library_round(folder, _unmeasured)
    meter.begin()
    for _ in range(meter.rounds):
        if meter.has_floors:
            await _floor(meter.span)
        await _library_round(folder, meter.span)


async def _library_round(folder: Path, span: Measure) -> None:
    sizes = Sizes(repeats=1, handoffs=HANDOFFS, sessions=SESSIONS, durable_sessions=SESSIONS)
    for name, units in (("s1", HANDOFFS), ("s2", SESSIONS), ("s4", SESSIONS)):
        _costs_are(partial(span, name, units))
        await SCENARIOS[name](sizes, folder)


async def _memory(folder: Path) -> dict[str, float]:
    """The memory of Python objects, and the bytes on disk, for one session."""
    sizes = Sizes(sessions=TRACED, durable_sessions=STORED)
    peak = 0

    @contextmanager
    def traced() -> Iterator[None]:
        nonlocal peak
        tracemalloc.start()
        yield
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    _costs_are(traced)
    await SCENARIOS["s2"](sizes, folder)
    s2_memory = peak / TRACED
    _costs_are(nullcontext)
    s4 = await SCENARIOS["s4"](sizes, folder)
    waiting = await _waiting_memory(folder / "waiting.db")
    return {
        "s2_memory": s2_memory,
        "s4_disk": s4["bytes_per_session"],
        "waiting_memory": waiting / TRACED,
    }


async def _waiting_memory(path: Path) -> int:
    agent, config = refunds(), RunConfig(approver="inbox")
    async with SqliteStore(path) as store:

        async def wait() -> None:
            session = Session(store=store)
            result = await Runner.run(agent, "5 please", session=session, run_config=config)
            assert result.outcome.kind == "waiting", result

        await wait()
        gc.collect()
        tracemalloc.start()
        for _ in range(TRACED):
            await wait()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]


class RefundModel:
    """A model that calls the tool `refund`, and then answers."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer according to the last item."""
        if request.input[-1].get("type") == "function_call_output":
            yield ModelResponse([assistant_message("paid")])
        else:
            yield ModelResponse([function_call("call_1", "refund", '{"amount":5}')])


def refunds() -> Agent[Any]:
    """An agent whose tool needs approval."""

    @function_tool(confirmation=True)
    def refund(amount: int) -> str:
        """Give money back."""
        return f"{amount} paid"

    return Agent("refunds", model=RefundModel(), tools=[refund])


async def _server(folder: Path, meter: Meter, loop: IdleClockLoop) -> None:
    """A run of the demo team, and the answer to an approval, over HTTP. The client is included.

    The store is in memory: the order in which the threads of SQLite take turns changes from run to
    run, and with it the number of transactions. The event loop is Python's own.
    """
    from ekiden.cli.process import rest_collector
    from ekiden.project import load_project
    from ekiden.project.demo import team
    from ekiden.project.service import Service
    from ekiden.server import ServerConfig
    from ekiden.server.process import listen, run_server

    project = load_project(folder, home=folder)
    project.team = Team(*team, refunds(), name=team.name)
    ready = asyncio.Event()
    with listen("127.0.0.1", 0) as listener:
        async with project, asyncio.TaskGroup() as group:
            service = Service(project, store="memory:", workers=100)
            group.create_task(
                run_server(service, ServerConfig(), listener, ready=lambda _: ready.set())
            )
            await ready.wait()
            rest_collector()
            streams = await asyncio.open_connection(*listener.getsockname())
            client = Client(loop, *streams)
            for _ in range(WARM_ROUNDS):
                await _requests(client, _unmeasured)
            meter.begin()
            for _ in range(meter.rounds):
                if meter.has_floors:
                    await _floor(meter.span)
                await _requests(client, meter.span)
            signal.raise_signal(signal.SIGTERM)


async def _requests(client: Client, span: Measure) -> None:
    gc.collect()
    with span("server", REQUESTS):
        for _ in range(REQUESTS):
            await client.run("Where is my order 1042?", "orders", "done")
    waiting = [await client.run("5 please", "refunds", "waiting") for _ in range(APPROVALS)]
    gc.collect()
    with span("approval", APPROVALS):
        for run in waiting:
            await client.approve(run)


class Client:
    """An HTTP client with one connection. It does no more than the scenarios need, because its
    work is measured with the server's."""

    def __init__(
        self, loop: IdleClockLoop, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._loop = loop
        self._reader = reader
        self._writer = writer

    async def run(self, text: str, agent: str, status: str) -> dict[str, Any]:
        """Send a message. Returns the run, which must end at this agent, with this status."""
        to = {"agent": agent} if agent == "refunds" else {}
        run = await self.send("POST", "/runs", {"input": text, **to})
        assert (run["agent"], run["status"]) == (agent, status), run
        return run

    async def approve(self, run: dict[str, Any]) -> None:
        """Approve the tool call of the run, and wait for the end of the run."""
        [item] = run["questions"]
        await self.send("POST", f"/inbox/{item}/answer", {"choice": "approve"})
        ended = await self.send("GET", f"/runs/{run['run_id']}?wait_s=300")
        assert ended["status"] == "done", ended

    async def send(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request. Returns the body of the response when the server is idle again."""
        data = json.dumps(body).encode()
        head = f"{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        self._writer.write(f"{head}\r\n".encode() + (data if body is not None else b""))
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        found: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        assert answer.split(b" ", 2)[1].startswith(b"2"), found
        await self._loop.settle()
        return found
