"""How cost grows with sessions, agents, history and workers: prints JSON.

    python benchmarks/growth.py [sessions] [agents] [history] [workers] [--store postgresql://…]

Each series has one figure that grows while the rest stays as it is. Sessions are built inside the
database. `list_…` reads a full page with a filter, `start_of_serve` is `ekiden serve` until it
listens, `handoff_to_limited_agent` has targets with `max_sessions`. `claim` takes a ready session,
`step` stores an event of it, `wake` wakes one that waits, `handoff` is one handoff of a run that is
stored, `open` is what a message costs until it is stored and its session left to the workers, and
`run` what a worker needs for it. Figures are the median of several: `cpu_us` of this process and
`wall_us` with the database and the disk. Without `--store` the database is a SQLite file. What is
written is gone afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import asyncpg
from server_load import Server

from ekiden import Agent, Limits, RunConfig, Runner, Session
from ekiden.core.agent import Team
from ekiden.core.conversation.model import assistant_message, user_message
from ekiden.core.events import Event
from ekiden.engine import Worker, submit
from ekiden.inbox import Inbox
from ekiden.project import open_store
from ekiden.project.bench.load import LoadSize, load
from ekiden.project.bench.load_worker import bench_database
from ekiden.project.bench.measure import DeskModel, RelayModel, desk_team, ring
from ekiden.server.metrics import StoreGauges
from ekiden.storage.base import Batch, Commit, NewSession, SessionFilter, SessionPatch, Store
from ekiden.storage.postgres.address import parse_address

_REPEATS = 30
_PAGE = 1000
_HANDOFFS = 20
_UNLIMITED = RunConfig(limits=Limits(turns=None, depth=None))

Figures = dict[str, dict[str, float]]


async def cost(work: Callable[[], Awaitable[Any]], repeats: int = _REPEATS) -> dict[str, float]:
    """The median cost of doing it, after two times that do not count."""
    cpu, wall = [], []
    for _ in range(repeats + 2):
        began, used = time.perf_counter(), time.process_time()
        await work()
        cpu.append((time.process_time() - used) * 1e6)
        wall.append((time.perf_counter() - began) * 1e6)
    return {
        "cpu_us": round(statistics.median(cpu[2:])),
        "wall_us": round(statistics.median(wall[2:])),
    }


async def with_sessions(store: Store, count: int, url: str) -> Figures:
    """So many sessions are stored, and one is worked on.

    Every filter finds a full page, however many sessions there are.
    """
    await _fill(url, count)
    await store.create(NewSession(id="ready", agent="sales", status="ready"))
    place = iter(range(0, count, 10))

    async def claim() -> None:
        claimed = await store.claim_next(owner="me", lease_s=30, agents=["sales"])
        assert claimed is not None
        await store.release(claimed[0])

    async def look() -> None:
        assert await store.claim_next(owner="me", lease_s=30, agents=["nobody"]) is None

    async def wake() -> None:
        await store.write(Batch(wakes=[f"w{next(place)}"]))

    claimed = await cost(claim)
    missed = await cost(look)
    held, row = await store.claim("ready", owner="me", lease_s=600)
    seq = row.seq

    async def step() -> None:
        nonlocal seq
        seq += 1
        await store.commit(held, Commit(patch=SessionPatch(), events=[_event("ready", seq)]))

    return {
        "claim": claimed,
        "claim_in_vain": missed,
        "step": await cost(step),
        "handoff": await _handoff(store, "handoffs"),
        "handoff_to_limited_agent": await _handoff(store, "limited", max_sessions=100),
        "wake": await cost(wake),
        **{f"list_{name}": await cost(partial(_page, store, of)) for name, of in _FILTERS.items()},
        "metrics": await cost(partial(_metrics, store)),
        "info": await cost(store.info),
        "start_of_serve": _start(url),
    }


_FILTERS = {
    "all": SessionFilter(),
    "status": SessionFilter(status="waiting"),
    "agent": SessionFilter(agent="rare"),
    "status_and_agent": SessionFilter(status="waiting", agent="sales"),
    "user": SessionFilter(user_id="rare"),
    "outcome": SessionFilter(outcome="failed"),
}

_FILL = """
    insert into sessions (id, agent, status, outcome, user_id, {columns})
    select 'w' || n, case when n % {every} = 1 then 'rare' else 'sales' end,
        case when n % 10 = 3 then 'idle' else 'waiting' end,
        case when n % {every} = 3 then 'failed' when n % 10 = 3 then 'done' end,
        case when n % {every} = 5 then 'rare' else 'user' || n % 1000 end, {values}
    from {numbers}
"""


async def _fill(url: str, count: int) -> None:
    """Build the sessions inside the database; each rare value has a hundred of them."""
    every = count // 100
    if not url.startswith("postgres"):
        with closing(apsw.Connection(url)) as file:
            file.execute(
                f"with recursive numbers (n) as"
                f" (select 0 union all select n + 1 from numbers where n < {count} - 1) "
                + _FILL.format(
                    columns="created_us, updated_us", every=every, numbers="numbers",
                    values=f"{time.time_ns() // 1000} + n, {time.time_ns() // 1000} + n",
                )
            )  # fmt: skip
        return
    address = parse_address(url)
    place = {"search_path": address.schema}
    connection = await asyncpg.connect(address.dsn, server_settings=place, timeout=60)
    try:
        numbers = f"generate_series(0, {count} - 1) as n"
        await connection.execute(
            _FILL.format(columns="meta", values="'{}'", every=every, numbers=numbers), timeout=3600
        )
        await connection.execute("vacuum analyze sessions", timeout=3600)
    finally:
        await connection.close()


async def _page(store: Store, of: SessionFilter) -> None:
    assert len((await store.list(of)).sessions) == 50


async def _metrics(store: Store) -> None:
    service = SimpleNamespace(tenant="default", store=store, inbox=Inbox(store))
    await StoreGauges().read([("default", service)])


def _start(url: str) -> dict[str, float]:
    """Start `ekiden serve` three times; until it says where it listens."""
    cpu, wall = [], []
    for _ in range(3):
        began = time.perf_counter()
        server = Server(url, 0)
        cpu.append(server.cpu_s() * 1e6)
        wall.append((time.perf_counter() - began) * 1e6)
        server.stop()
    return {"cpu_us": round(statistics.median(cpu)), "wall_us": round(statistics.median(wall))}


async def with_agents(store: Store, count: int, _url: str) -> Figures:
    """The team has so many agents, and two of them work."""
    others = [Agent(f"agent_{number}", model=DeskModel()) for number in range(count - 2)]
    first = desk_team(DeskModel())
    team = Team(first, *others)
    number = iter(range(10**6))
    worker = Worker(store, team, concurrency=1)

    async def run() -> None:
        await submit(team, "where is my order?", session=Session(f"s{next(number)}", store=store))
        await worker.run(until_idle=True)

    return {"submit_and_run": await cost(run, 10)}


async def with_history(store: Store, count: int, _url: str) -> Figures:
    """The session has so many events, half of them by agents."""
    session = Session("long", store=store)
    held, _ = await store.claim("long", owner="me", lease_s=600, create=session.draft("a"))
    for first in range(1, count + 1, _PAGE):
        last = min(first + _PAGE, count + 1)
        await store.commit(
            held,
            Commit(
                patch=SessionPatch(), events=[_event("long", seq) for seq in range(first, last)]
            ),
        )
    await store.release(held)
    model = RelayModel()
    agent = ring(model)
    worker = Worker(store, agent, concurrency=1)

    async def opened() -> None:
        await submit(agent, "and now?", session=session)

    figures: Figures = {}
    for name, work in (("open", opened), ("run", lambda: worker.run(until_idle=True))):
        begun, used = time.perf_counter(), time.process_time()
        await work()
        figures[name] = {
            "cpu_us": round((time.process_time() - used) * 1e6),
            "wall_us": round((time.perf_counter() - begun) * 1e6),
        }
    figures["handoff"] = await _handoff(store, "long")
    return figures


async def _handoff(
    store: Store, session_id: str, *, max_sessions: int | None = None
) -> dict[str, float]:
    """One handoff of a run: what a run without any costs is taken out."""
    model = RelayModel()
    agent = ring(model)
    for each in Team(agent):
        each.max_sessions = max_sessions
    session = Session(session_id, store=store)

    async def run(handoffs: int) -> tuple[float, float]:
        model.left = handoffs
        began, used = time.perf_counter(), time.process_time()
        await Runner.run(agent, "go", session=session, run_config=_UNLIMITED)
        return time.process_time() - used, time.perf_counter() - began

    await run(1)
    differences = []
    for _ in range(3):
        without, with_them = await run(0), await run(_HANDOFFS)
        differences.append([(a - b) / _HANDOFFS for a, b in zip(with_them, without, strict=True)])
    cpu, wall = (statistics.median(each) * 1e6 for each in zip(*differences, strict=True))
    return {"cpu_us": round(cpu), "wall_us": round(wall)}


def _event(session_id: str, seq: int) -> Event:
    text = f"{seq}: a parcel, an order and an invoice"
    said = user_message(text) if seq % 2 else assistant_message(text)
    return Event(
        session_id=session_id, seq=seq, type="message", at_us=time.time_ns() // 1000, agent="a",
        items=(said,),
    )  # fmt: skip


async def with_workers(store: str | None, count: int, folder: Path) -> dict[str, Any]:
    """So many worker processes share the work."""
    size = LoadSize(sessions=250 * count, workers=count, messages=min(100, 250 * count))
    found = await load(size, store=store, folder=folder, note=_tell)
    names = ("sessions_per_s", "steps_per_s", "worker_cpu_us_per_step", "database_cpu_us_per_step")
    return {**{name: found[name] for name in names}, "latency_ms": found["latency_ms"]["p50"]}


SERIES: dict[str, tuple[Callable[[Store, int, str], Awaitable[Figures]], tuple[int, ...]]] = {
    "sessions": (with_sessions, (1000, 200_000, 2_000_000)),
    "agents": (with_agents, (10, 100, 1000)),
    "history": (with_history, (10, 1000, 100_000)),
}
_WORKERS = (1, 2, 4, 8)


async def measure(names: list[str], store: str | None, most: int) -> dict[str, Any]:
    """The series that are named, each figure in a database of its own."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for series in names:
            figures[series] = {}
            if series == "workers":
                for count in (each for each in _WORKERS if each <= most):
                    _tell(f"workers: {count}")
                    figures[series][count] = await with_workers(store, count, folder)
                continue
            work, counts = SERIES[series]
            for count in (each for each in counts if each <= most):
                _tell(f"{series}: {count}")
                async with (
                    bench_database(store, folder) as database,
                    open_store(database.url) as opened,
                ):
                    figures[series][count] = await work(opened, count, database.url)
    return figures


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", nargs="*", help="sessions, agents, history, workers; or all")
    parser.add_argument("--store", help="postgresql://…; else a SQLite file")
    parser.add_argument("--most", type=int, default=10**9, help="leave out larger figures")
    given = parser.parse_args()
    names = given.series or [*SERIES, "workers"]
    figures = asyncio.run(measure(names, given.store, given.most))
    print(json.dumps({"load_1min": os.getloadavg()[0], **figures}, indent=2))


if __name__ == "__main__":
    main()
