"""A run that is cancelled at any point where it waits can be resumed from there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Generator
from contextlib import aclosing
from typing import Any

import pytest

from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.base import Store
from tests.faults.child import carry_on
from tests.faults.choosing import marked
from tests.faults.conftest import Reference
from tests.faults.databases import Database
from tests.faults.evidence import Record, check_ending, check_log, read
from tests.faults.ledger import Ledger
from tests.faults.scenarios import ALL, DATABASES, SCENARIOS, Scenario
from tests.faults.world import World

EACH = [(database, name) for database in DATABASES for name in ALL]
QUICK = {("sqlite", "relay"), ("sqlite", "parallel"), ("sqlite", "code"), ("postgres", "relay")}

each_scenario = pytest.mark.parametrize(
    ("database", "scenario"), marked(EACH, QUICK), indirect=["database"]
)


class CancelledAt:
    """Awaits `work`, and cancels the task the `wait`-th time that `work` waits for something."""

    def __init__(self, work: Coroutine[Any, Any, Any], *, wait: int) -> None:
        self._work = work
        self._left = wait

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        advance, given = steps.send, None
        while True:
            try:
                awaited = advance(given)
            except StopIteration as end:
                return end.value
            self._left -= 1
            if self._left == 0:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                advance, given = steps.send, (yield awaited)
            except BaseException as exc:
                advance, given = steps.throw, exc


async def _cancelled(scenario: str, world: World, session: Session, *, wait: int) -> bool:
    """Whether the run was cancelled; false if it does not wait so often."""

    async def run() -> None:
        await CancelledAt(carry_on(ALL[scenario], world, session), wait=wait)

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    if task.cancelled():
        return True
    task.result()
    return False


async def _stored(store: Store, session_id: str, scenario: str) -> Record | None:
    record = await read(store, session_id)
    if record is not None:
        check_log(record, entry=ALL[scenario].entry)
    return record


@each_scenario
async def test_a_cancelled_run_resumes_from_what_is_stored(
    scenario: str, database: Database, session_id: str, ledger: Ledger, unharmed: Reference
) -> None:
    async with database.open() as store:
        wait, cancelled = 1, True
        while cancelled:
            world = World(ledger.folder / str(wait))
            session = Session(f"{session_id}-{wait}", store=store)
            cancelled = await _cancelled(scenario, world, session, wait=wait)
            left = await _stored(store, session.session_id, scenario)
            if left is not None and left.row.outcome is None:
                assert left.row.owner is None, f"not free after wait {wait}"
            await carry_on(ALL[scenario], world, session)
            ending = await _stored(store, session.session_id, scenario)
            assert ending is not None
            check_ending(ending.without_cancellations(), world.ledger, await unharmed(scenario))
            wait += 1
    assert wait > 10


@each_scenario
async def test_a_repeatedly_cancelled_run_ends_at_last(
    scenario: str, database: Database, session_id: str, ledger: Ledger, unharmed: Reference
) -> None:
    chance = random.Random(scenario)
    world = World(ledger.folder)
    async with database.open() as store:
        session = Session(session_id, store=store)
        wait = 4
        while await _cancelled(scenario, world, session, wait=wait):
            await _stored(store, session_id, scenario)
            wait += chance.randint(0, 2)
        ending = await _stored(store, session_id, scenario)
    assert ending is not None
    check_ending(ending.without_cancellations(), world.ledger, await unharmed(scenario))


async def test_a_stream_reader_may_leave_at_any_time(
    database: Database, session_id: str, ledger: Ledger, unharmed: Reference
) -> None:
    scenario, ended, number = SCENARIOS["streamed"], False, 0
    async with database.open() as store:
        while not ended:
            number += 1
            world = World(ledger.folder / str(number))
            session = Session(f"{session_id}-{number}", store=store)
            ended = await _seen_to_the_end(scenario, world, session, patience=number)
            left = await _stored(store, session.session_id, "streamed")
            assert left is not None
            assert left.row.owner is None
            await carry_on(scenario, world, session)
            ending = await _stored(store, session.session_id, "streamed")
            assert ending is not None
            check_ending(ending.without_cancellations(), world.ledger, await unharmed("streamed"))
    assert number > len((await unharmed("streamed")).log)


async def _seen_to_the_end(
    scenario: Scenario, world: World, session: Session, *, patience: int
) -> bool:
    """Look on until so many things were shown; whether that was all."""
    message = scenario.acts[0]
    assert isinstance(message, str)
    run = Runner.run_streamed(scenario.team(world), message, session=session)
    async with aclosing(run.events()) as shown:
        async for _ in shown:
            patience -= 1
            if patience == 0:
                return False
    return True
