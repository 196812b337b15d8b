"""Clocks jump by an hour, either way: nothing expires early, and no lease is given twice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.storage.base import Store
from tests.faults import bus_child
from tests.faults.busy_team import GO
from tests.faults.choosing import marked
from tests.faults.crowd import check_crowd, crowd
from tests.faults.databases import Database, PostgresDatabase
from tests.faults.ledger import Ledger
from tests.faults.processes import ROOT, Nursery, environment, start
from tests.faults.scenario import DATABASES
from tests.faults.scene import Scene
from tests.faults.test_request_kills import at_work, ended, request_in
from tests.faults.waiting import DEADLINE_S, until
from tests.support.moved_clock import HOUR_S, ClockShop, clock_shop
from tests.support.server import Server, private_server

SESSIONS = 30
JUMPS = [
    pytest.param(
        database,
        hours * HOUR_S,
        id=f"{database}-{'ahead' if hours > 0 else 'behind'}",
        marks=[pytest.mark.slow] if (database, hours) == ("postgres", -1) else [],
    )
    for database in DATABASES
    for hours in (1, -1)
]


@pytest.fixture(scope="module")
def clocks() -> Iterator[ClockShop]:
    """Where clocks come from."""
    with clock_shop() as shop:
        yield shop


@pytest.mark.parametrize(
    "empty_database", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True
)
async def test_workers_with_jumping_clocks_keep_their_sessions(
    empty_database: Database, ledger: Ledger, clocks: ClockShop
) -> None:
    fast, slow = clocks.clock(), clocks.clock()
    with crowd(empty_database.url, ledger) as people:
        async with empty_database.open() as store:
            people.work(env=fast.env, lease_s=30)
            people.work(env=slow.env, lease_s=30)
            people.submit()
            await people.begin()
            for hours in (1, -1, 0):
                fast.jump(hours * HOUR_S)
                slow.jump(-hours * HOUR_S)
                await people.progress(SESSIONS // 3)
            names = await people.end(empty_database)
            epochs = {(await store.get(name)).epoch for name in names}
    assert len(names) >= SESSIONS
    await check_crowd(empty_database, ledger, names)
    assert epochs == {2}, "one lease for whoever submitted it, and one for whoever worked on it"
    for kind, name in (("attempt", "key"), ("model", "session")):
        times = Counter((line[name], line.get("step")) for line in ledger.lines(kind))
        assert set(times.values()) == {1}, "nothing was done again"


def post(store: Store, item_id: str, due_us: int) -> InboxItem:
    """A question that ends by itself at a time of the store."""
    return InboxItem(
        id=item_id, kind="approval", from_agent="sales", subject="?", options=("yes", "no"),
        deadline_us=due_us,
    )  # fmt: skip


@contextmanager
def keeping_time(url: str, env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that sees to what is due."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.inbox_child", url, "p", "keep_time"],
        cwd=ROOT,
        env={**environment(), **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize(("empty_database", "jump"), JUMPS, indirect=["empty_database"])
async def test_a_deadline_expires_on_time_despite_clock_jumps(
    empty_database: Database, clocks: ClockShop, jump: int
) -> None:
    clock = clocks.clock()
    async with empty_database.open() as store:
        inbox = Inbox(store)
        with keeping_time(empty_database.url, clock.env) as process:
            now_us = await store.now_us()
            await inbox.post(post(store, "soon", now_us + 500_000))
            await inbox.post(post(store, "later", now_us + 1800 * 1_000_000))
            clock.jump(jump)
            await asyncio.to_thread(process.communicate, "soon\n", DEADLINE_S)
            assert process.returncode == 0
        soon, later = await inbox.get("soon"), await inbox.get("later")
        assert (soon.status, later.status) == ("expired", "open")
        assert await store.now_us() >= now_us + 500_000


@pytest.mark.parametrize(
    ("empty_database", "jump"),
    marked([("sqlite", HOUR_S), ("sqlite", -HOUR_S), ("postgres", HOUR_S)], [("sqlite", HOUR_S)]),
    indirect=["empty_database"],
)
async def test_a_message_does_not_expire_because_of_a_clock_jump(
    empty_database: Database, ledger: Ledger, clocks: ClockShop, jump: int
) -> None:
    sender, receiver = clocks.clock(-jump), clocks.clock(jump)
    telling = bus_child.Job(
        task="tell", store=empty_database.url, folder=str(ledger.folder), ids=("n1", "n2"), ttl=60.0
    )
    assert bus_child.start(telling, **sender.env).wait(DEADLINE_S) == 0
    serving = bus_child.start(replace(telling, task="serve", ids=()), **receiver.env)
    try:
        await until(lambda: len(ledger.lines("got")) == 2, "both are delivered")
        (ledger.folder / "stop").touch()
        assert serving.wait(DEADLINE_S) == 0
    finally:
        serving.kill()
        serving.wait(DEADLINE_S)
    assert ledger.effects() == ["n1", "n2"]


@pytest.mark.parametrize(
    ("database", "scene"),
    marked([("sqlite", "busy"), ("postgres", "busy")], [("sqlite", "busy")]),
    indirect=True,
)
async def test_a_request_does_not_time_out_because_of_a_clock_jump(
    scene: Scene, victims: Nursery, clocks: ClockShop
) -> None:
    worker = await at_work(scene, victims, "paper")
    job = scene.job_with(task="hand_over", to="orders", timeout_s=60.0)
    asker = start(job, **clocks.clock(-HOUR_S).env)
    try:
        async with scene.database.open() as store:
            await request_in(store, scene)
            (scene.ledger.folder / GO).touch()
        assert await ended(worker) == 0
        assert asker.wait(DEADLINE_S) == 0
    finally:
        asker.kill()
        asker.wait(DEADLINE_S)
    [result] = scene.ledger.lines("result", pid=asker.pid)
    assert result["value"] == "completed"
    assert scene.ledger.effects() == ["A-42", "paper"]


@contextmanager
def server_with(env: Mapping[str, str]) -> Iterator[Server]:
    """A PostgreSQL server of which the environment is this, too."""
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        with private_server() as server:
            _restore(before)
            yield server
    finally:
        _restore(before)


def _restore(before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.mark.slow
async def test_every_session_has_one_owner_despite_a_jump_of_the_database_clock(
    ledger: Ledger, clocks: ClockShop
) -> None:
    clock = clocks.clock()
    with server_with(clock.env) as server:
        database = PostgresDatabase(f"{server.url}&schema=clocks")
        with crowd(database.url, ledger) as people:
            async with database.open() as store:
                began_us = await store.now_us()
                people.work()
                people.work()
                people.submit()
                await people.begin()
                for hours in (1, 0, 1):
                    clock.jump(hours * HOUR_S)
                    await people.progress(SESSIONS // 3)
                assert await store.now_us() - began_us > HOUR_S * 1_000_000
                names = await people.end(database)
        await check_crowd(database, ledger, names)
