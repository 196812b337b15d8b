"""Many sessions that wait for a person: what they cost, and whether each answer wakes its own one.

    python benchmarks/waiting.py [--sessions 10000] [--idle 10] [--store PATH|postgresql://…]

Prints one JSON object. One process submits the sessions and is the worker that runs each of them
until it asks a person, and ends. Another one opens the store, which is the restart, and is an idle
worker; what that costs is compared with the same over an empty store. The same is asked of the
command `ekiden worker`, as a process from outside. A third one answers in random
order, first a tenth of them while no worker is there, to see that only those sessions were woken,
then the rest while a worker goes on with them; in the end every session must have said the answer
to its own question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from ekiden import Agent, CodeContext, RunConfig, Session
from ekiden.core.conversation.model import text_of
from ekiden.engine import Worker, submit
from ekiden.inbox import Inbox
from ekiden.project import open_store
from ekiden.storage.base import Store

_HANDS = 16
_PAGE = 1000
_START_S = 5.0
"""After so long a process has begun to be idle."""


async def ask(ctx: CodeContext[Any]) -> str:
    """An agent that asks a person about what it was told."""
    answer = await ctx.request_approval(
        f"a discount for {ctx.text}?", ("yes", "no"), {"customer": ctx.text}, deadline_s=30 * 86_400
    )
    return f"{ctx.text}: {answer.choice}, {answer.text}"


SALES = Agent("sales", run=ask)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sessions", type=int, default=10_000)
    options.add_argument("--idle", type=float, default=10.0, help="seconds")
    options.add_argument("--store", help="an empty store; else a new SQLite file")
    options.add_argument("--phase", choices=["suspend", "idle", "answer"], help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.phase is not None:
        print(json.dumps(asyncio.run(_phase(given))))
        return
    with tempfile.TemporaryDirectory() as folder:
        full = given.store or str(Path(folder) / "full.db")
        figures = {"sessions": given.sessions, "load_before": os.getloadavg()[0]}
        figures |= _in_own_process("suspend", full, given)
        without = _empty(given.store, Path(folder))
        empty = _in_own_process("idle", without, given)
        waiting = _in_own_process("idle", full, given)
        command = {name: _command(name, given.idle) for name in (without, full)}
        extra = waiting["rss_bytes"] - empty["rss_bytes"]
        figures |= {
            "waiting_after_restart": waiting["waiting"],
            "idle_core_percent": waiting["core_percent"],
            "idle_core_percent_of_an_empty_store": empty["core_percent"],
            "memory_bytes_per_session": round(extra / given.sessions, 1),
            "rss_mb": round(waiting["rss_bytes"] / 1e6, 1),
            "command_core_percent": command[full][0],
            "command_core_percent_of_an_empty_store": command[without][0],
            "command_memory_bytes_per_session": round(
                (command[full][1] - command[without][1]) / given.sessions, 1
            ),
            **_in_own_process("answer", full, given),
            "load_after": os.getloadavg()[0],
        }
    print(json.dumps(figures, indent=2))


def _empty(store: str | None, folder: Path) -> str:
    """A store of the same kind without any session."""
    if store is None or not store.startswith("postgres"):
        return str(folder / "empty.db")
    plain, _, query = store.partition("?")
    rest = [each for each in query.split("&") if each and not each.startswith("schema=")]
    return f"{plain}?{'&'.join([*rest, f'schema=empty_{os.getpid()}'])}"


def _command(store: str, seconds: float) -> tuple[float, int]:
    """What `ekiden worker` takes of a core while it has nothing to do, and of memory."""
    here = Path(__file__)
    words = ["worker", "--store", store, "--team", f"{here.stem}:SALES", "--log", "none"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path])}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "ekiden.cli", *words], env=environment, cwd=folder
        )
        try:
            probe = psutil.Process(process.pid)
            time.sleep(_START_S)
            before, began = sum(probe.cpu_times()[:2]), time.perf_counter()
            time.sleep(seconds)
            used, took = sum(probe.cpu_times()[:2]) - before, time.perf_counter() - began
            rss = probe.memory_info().rss
        finally:
            process.terminate()
            process.wait(timeout=30)
    return round(100 * used / took, 3), rss


def _in_own_process(phase: str, store: str, given: argparse.Namespace) -> dict[str, Any]:
    words = ["--phase", phase, "--store", store, "--sessions", str(given.sessions)]
    done = subprocess.run(
        [sys.executable, __file__, *words, "--idle", str(given.idle)],
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


async def _phase(given: argparse.Namespace) -> dict[str, Any]:
    async with open_store(given.store) as store:
        match given.phase:
            case "suspend":
                return await _suspend(store, given.sessions)
            case "idle":
                return await _idle(store, given.idle)
            case _:
                return await _answer(store, given.sessions)


async def _suspend(store: Store, count: int) -> dict[str, Any]:
    names = iter(range(count))

    async def submit_some() -> None:
        for number in names:
            session = Session(f"s{number}", store=store)
            await submit(SALES, f"customer {number}", session=session)

    began = time.perf_counter()
    await asyncio.gather(*(submit_some() for _ in range(_HANDS)))
    submitted = time.perf_counter()
    worker = _worker(store)
    await worker.run(until_idle=True)
    suspended = time.perf_counter()
    assert worker.finished == count
    return {
        "submit_ms": round((submitted - began) * 1e3 / count, 3),
        "suspend_ms": round((suspended - submitted) * 1e3 / count, 3),
    }


def _worker(store: Store) -> Worker:
    return Worker(store, SALES, run_config=RunConfig(lease_s=120))


async def _idle(store: Store, seconds: float) -> dict[str, Any]:
    worker = _worker(store)
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await asyncio.sleep(1)
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        rss = _rss()
        worker.stop()
    assert worker.finished == 0
    statuses = await _statuses(store)
    return {
        "core_percent": round(100 * cpu / wall, 3),
        "rss_bytes": rss,
        "waiting": statuses["waiting"],
    }


async def _answer(store: Store, count: int) -> dict[str, Any]:
    inbox = Inbox(store)
    items = await _items(inbox)
    random.Random(7).shuffle(items)
    took: list[float] = []

    async def answer(left: Iterator[tuple[str, str]]) -> None:
        for item_id, session_id in left:
            begun = time.perf_counter()
            await inbox.answer(item_id, choice="yes", text=f"for {session_id}", by="Anna")
            took.append((time.perf_counter() - begun) * 1e3)

    some, others = items[: count // 10], items[count // 10 :]
    await asyncio.gather(*(answer(left) for left in [iter(some)] * _HANDS))
    woken = {row.id for row in await _rows(store) if row.status == "ready"}
    wrong = len(woken ^ {session_id for _, session_id in some})
    worker = _worker(store)
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        await asyncio.gather(*(answer(left) for left in [iter(others)] * _HANDS))
        answered = time.perf_counter()
        while worker.finished < count and not running.done():
            await store.wait_for_change(0.2)
        worker.stop()
    ended = time.perf_counter()
    wrong += sum([await _said(store, f"s{n}") != _expected(n) for n in range(count)])
    took.sort()
    statuses = await _statuses(store)
    return {
        "answers_found": len(items),
        "answer_median_ms": round(took[len(took) // 2], 2),
        "answers_per_s_beside_a_worker": round(len(others) / (answered - began)),
        "sessions_ended_per_s": round(count / (ended - began)),
        "wrongly_woken_or_answered": wrong,
        "woken_more_than_once": sum(row.wakes != 1 for row in await _rows(store)),
        "done": statuses["done"],
        "left_open": len(await _items(inbox)),
    }


def _expected(number: int) -> str:
    return f"customer {number}: yes, for s{number}"


async def _said(store: Store, session_id: str) -> str:
    events = await store.events(session_id, with_items=True)
    return text_of(events[-1].items[-1])


async def _items(inbox: Inbox) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    cursor: str | None = None
    while True:
        page = await inbox.list(limit=_PAGE, cursor=cursor)
        found += [(item.id, item.session_id or "") for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def _rows(store: Store) -> list[Any]:
    rows: list[Any] = []
    cursor: str | None = None
    while True:
        page = await store.list(limit=_PAGE, cursor=cursor)
        rows += page.sessions
        cursor = page.next_cursor
        if cursor is None:
            return rows


async def _statuses(store: Store) -> Counter[str]:
    """How many sessions have which status, and which outcome if they are at their end."""
    rows = await _rows(store)
    return Counter(row.outcome if row.status == "idle" else row.status for row in rows)


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
