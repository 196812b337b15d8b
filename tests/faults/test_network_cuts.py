"""The wire between a process and PostgreSQL is cut, stalls, or loses what came last."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import pytest

from ekiden.storage.base import SessionFilter, Store
from tests.faults.child import REFUSED
from tests.faults.conftest import Reference
from tests.faults.crowd import Crowd, check_crowd, crowd
from tests.faults.databases import PostgresDatabase
from tests.faults.evidence import Record, Unharmed, check_ending, check_work
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scene import Scene
from tests.faults.test_request_kills import ended
from tests.faults.waiting import DEADLINE_S
from tests.faults.wire import Wire

Loss: TypeAlias = Literal["lose_answer", "hold_request"]
"""The server did it and its answer is lost, or the request arrives much later."""
LOSSES: tuple[Loss, ...] = get_args(Loss)
_QUICK = 4
_AT_LEAST = 5

RELAY = pytest.mark.parametrize(
    ("database", "scene"), [("postgres", "relay")], indirect=["database", "scene"]
)


@pytest.fixture
async def wire(postgres_server_url: str) -> AsyncIterator[Wire]:
    """In front of the server of the tests."""
    async with Wire(postgres_server_url) as wire:
        yield wire


def at_number(scene: Scene, number: int) -> Scene:
    """Another session of the same scenario, with a ledger of its own."""
    own = Ledger(scene.ledger.folder / str(number))
    return Scene(scene.job.scenario, scene.database, f"{scene.session_id}-{number}", own)


async def round_trips(wire: Wire, scene: Scene, nursery: Nursery) -> int:
    """How often a run asks the server for something; the tables are made."""
    async with scene.database.open():
        before = wire.requests
        job = at_number(scene, 0).job_with(store=wire.url(scene.database.url))
        assert await ended(nursery.start(job)) == 0
        return wire.requests - before


async def survive(
    wire: Wire, scene: Scene, victims: Nursery, rescuers: Nursery, unharmed: Unharmed
) -> None:
    """Let a run meet the failure; a process without it continues, if need be."""
    victim = victims.start(scene.job_with(store=wire.url(scene.database.url)))
    code = await ended(victim)
    assert code in (0, REFUSED)
    for error in scene.ledger.lines("error", pid=victim.pid):
        assert error["code"] == "store.unavailable"
        assert "was lost" in error["text"] or "cannot reach" in error["text"]
    left = await scene.left_by_the_dead()
    assert code != 0 or (left is not None and left.row.outcome == "done")
    rescuer, code = rescuers.run(scene.job)
    assert code == 0, scene.ledger.lines("error")
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(await scene.read(), scene.ledger, unharmed)
    if wire.holds:
        before = written(await scene.read())
        await wire.deliver()
        assert written(await scene.read()) == before, "what arrives late changes nothing"


def written(record: Record) -> tuple[object, ...]:
    """What was written to the session: a claim that arrives late is a lease that runs out."""
    return replace(record, row=replace(record.row, epoch=0)).content


@RELAY
@pytest.mark.parametrize(
    "is_whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"]
)
@pytest.mark.parametrize("loss", LOSSES)
async def test_a_run_reaches_the_right_end_despite_lost_network_packets(
    wire: Wire,
    scene: Scene,
    loss: Loss,
    is_whole: bool,
    victims: Nursery,
    rescuers: Nursery,
    unharmed: Reference,
) -> None:
    trips = range(await round_trips(wire, scene, rescuers))
    chosen = trips if is_whole else random.Random(loss).sample(trips, _QUICK)
    for nth in chosen:
        wire.strike(loss, after=nth)
        each = at_number(scene, nth + 1)
        await survive(wire, each, victims, rescuers, await unharmed("relay"))


async def owned_by(store: Store, pid: int) -> dict[str, int]:
    """The sessions that the process has, with their epochs."""
    page = await store.list(SessionFilter(status="ready"), limit=1000)
    return {row.id: row.epoch for row in page.sessions if f"-{pid}-" in (row.owner or "")}


async def caught_at_work(
    people: Crowd, wire: Wire, store: Store, pid: int, how: str
) -> dict[str, int]:
    """Cut the process off while it has sessions; which, with their epochs."""
    while True:
        getattr(wire, how)()
        held = await owned_by(store, pid)
        if held:
            return held
        wire.mend()
        await people.progress(1)


async def all_taken_over(store: Store, held: Mapping[str, int]) -> None:
    """Return when another process has claimed each of the sessions."""
    async with asyncio.timeout(DEADLINE_S):
        while not all([(await store.get(name)).epoch > held[name] for name in held]):
            await store.wait_for_change(0.1)


@pytest.mark.parametrize("how", ["stall", pytest.param("cut", marks=pytest.mark.slow)])
async def test_a_cut_off_worker_is_replaced_and_refused(
    wire: Wire, postgres_url: str, ledger: Ledger, how: str
) -> None:
    database = PostgresDatabase(postgres_url)
    wire.delay_s = 0.002
    with crowd(postgres_url, ledger) as people:
        async with database.open() as store:
            far = people.work(store=wire.url(postgres_url))
            people.submit()
            await people.begin()
            await people.progress(_AT_LEAST)
            held = await caught_at_work(people, wire, store, far.pid, how)
            near = people.work()
            await all_taken_over(store, held)
            await people.progress(_AT_LEAST)
            wire.mend()
            done = len(ledger.lines("attempt", pid=far.pid))
            await people.until(
                lambda: len(ledger.lines("attempt", pid=far.pid)) > done, "it is at work again"
            )
            names = await people.end(database)
    assert ledger.lines("attempt", pid=near.pid)
    await check_crowd(database, ledger, names)
