"""Workers on Temporal, and Temporal itself, are killed: nothing is lost, nothing done twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from ekiden.core.agent import Agent, Team
from ekiden.engine import submit
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.postgres import PostgresStore
from ekiden.testing.contracts.engine import asked_person, decide, done
from tests.faults.processes import ROOT, environment
from tests.faults.temporal_child import relay_team
from tests.integration.temporal.desk import attempts, echo, handle_of, until_status
from tests.support.forked import ForkedPopen
from tests.support.temporal import DevServer, client_of
from tests.support.temporal_engine import TemporalEngine

LEASE_S = 30.0
"""Far more than a dead worker on the same host costs."""
DEADLINE_S = 60.0
SEVERAL = 6


@contextmanager
def worker_process(url: str, address: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of its own from the very beginning; killed at the end if it still lives."""
    with (folder / "output.txt").open("ab") as output:
        process = ForkedPopen(
            [
                sys.executable,
                "-m",
                "tests.faults.temporal_child",
                url,
                address,
                str(LEASE_S),
                str(folder),
            ],
            cwd=ROOT,
            env=environment(),
            stdout=output,
            stderr=output,
        )
    (folder / f"hold-{process.pid}").touch()
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_S)


def effects(folder: Path) -> list[tuple[str, int]]:
    """Each effect, with the process that had it."""
    file = folder / "effects.txt"
    if not file.exists():
        return []
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    return [(name, int(pid)) for name, pid in lines]


async def finished(store: Store, session_id: str) -> SessionRow:
    """The session, once it is done."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            row = await store.get(session_id)
            if row.status == "idle" and row.outcome == "done":
                return row
            await store.wait_for_change(0.1)


@pytest.mark.slow
async def test_a_worker_killed_during_a_handoff_is_replaced_at_once(
    postgres_url: str, postgres_store: PostgresStore, temporal_server: DevServer, tmp_path: Path
) -> None:
    team = relay_team(tmp_path)
    names = [f"s{number}" for number in range(SEVERAL)]
    with ExitStack() as stack:
        start = (postgres_url, temporal_server.address, tmp_path)
        victim = stack.enter_context(worker_process(*start))
        for name in names:
            await submit(team, "go", session=Session(name, store=postgres_store))
        async with asyncio.timeout(DEADLINE_S):
            while sum(name.startswith("second") for name, _ in effects(tmp_path)) < SEVERAL:
                await postgres_store.wait_for_change(0.05)
        other = stack.enter_context(worker_process(*start))
        (tmp_path / f"hold-{other.pid}").unlink()
        async with asyncio.timeout(DEADLINE_S):
            while not (tmp_path / f"up-{other.pid}").exists():
                await postgres_store.wait_for_change(0.05)
        victim.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        for name in names:
            await finished(postgres_store, name)
        took_s = time.monotonic() - killed
    print(f"taken over and finished {took_s:.2f} s after kill -9, with a lease of {LEASE_S:g} s")
    stamps = Counter(name for name, _ in effects(tmp_path) if name.startswith("stamp"))
    assert stamps == {f"stamp-{name}": 1 for name in names}
    again = [name for name, pid in effects(tmp_path) if pid == other.pid]
    assert sorted(again) == [f"second-{name}" for name in names]
    client = await client_of(temporal_server)
    for name in names:
        tried = await attempts(await handle_of(client, postgres_store, name))
        assert set(tried) == {1}, "heartbeats were waited for"


@pytest.mark.slow
async def test_waiting_sessions_survive_a_restart_of_temporal(
    postgres_store: PostgresStore, tmp_path: Path
) -> None:
    async def asks(ctx: CodeContext[Any]) -> str:
        deadline_s = None if ctx.text == "person" else 8.0
        answer = await ctx.request_approval("may I?", deadline_s=deadline_s, default="reject")
        return f"{answer.choice} by {answer.by}"

    server = DevServer(tmp_path / "temporal.db")
    with server:
        await client_of(server)
        engine = TemporalEngine(postgres_store, server.address)
        team = Team(Agent("desk", run=asks))
        await engine.start(team)
        await engine.submit("person", "person")
        item = await asked_person(engine, "person")
        await engine.submit("deadline", "deadline")
        async with asyncio.timeout(DEADLINE_S):
            while (await postgres_store.get("deadline")).status != "waiting":
                await postgres_store.wait_for_change(0.1)
        server.stop(signal.SIGKILL)
        await engine.submit("person", "while-down")
        await decide(engine, item, "approve")
        server.start()
        await client_of(server)
        assert await done(engine, "person") == "approve by mira"
        assert await done(engine, "deadline") == "reject by nobody"
        async with asyncio.timeout(DEADLINE_S):
            while len((await Inbox(postgres_store).list()).items) != 1:
                await postgres_store.wait_for_change(0.1)
        await engine.stop(drain=False)
    assert os.path.exists(tmp_path / "temporal.db")


@pytest.mark.slow
async def test_a_temporal_cluster_without_its_data_gets_the_sessions_again(
    postgres_store: PostgresStore,
) -> None:
    team = Team(Agent("desk", run=echo, runs_on={"gpu"}), Agent("other", run=echo))
    server = DevServer()
    with server:
        await client_of(server)
        engine = TemporalEngine(postgres_store, server.address)
        await engine.start(team)
        await engine.submit("hello", "s")
        handle = await handle_of(await client_of(server), postgres_store, "s")
        await until_status(handle, WorkflowExecutionStatus.RUNNING)
        server.stop(signal.SIGKILL)
        server.start()
        handle = await handle_of(await client_of(server), postgres_store, "s")
        await until_status(handle, WorkflowExecutionStatus.RUNNING, DEADLINE_S)
        other = TemporalEngine(postgres_store, server.address, labels={"gpu"})
        await other.start(team)
        assert await done(other) == "you said: hello"
        for each in (engine, other):
            await each.stop()
