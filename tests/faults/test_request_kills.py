"""`kill -9` during a request for a handoff of a running session, its withdrawal or cancel."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ekiden.core.handoffs import HandoffResult
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.handoff.requests import FINAL, REQUESTS
from ekiden.runtime import HandoffController, RunConfig
from ekiden.storage.base import Document, Store
from tests.faults.aftermath import check_conversations
from tests.faults.busy_team import GO, GO_WHEN_ASKED, busy
from tests.faults.evidence import Record
from tests.faults.processes import Child, Nursery
from tests.faults.scenario import DATABASES
from tests.faults.scene import Scene
from tests.faults.waiting import until
from tests.faults.world import World

SERVED = [
    "handoff.request.before_serve",
    "handoff.offer.before_call",
    "handoff.offer.after_call",
    "handoff.transferring.before_commit",
    "handoff.transferring.after_commit",
    "turn.answer.before_commit:2",
    "turn.answer.after_commit:2",
    "run.finish.before_commit",
    "run.finish.after_commit",
]
"""Points at which the process that runs the session dies after a request for a handoff."""
ASKED = ["handoff.request.before_write", "handoff.request.after_write"]
"""Points at which the requesting process dies."""
TAKEN = ["handoff.start.after_claim", "handoff.transferring.after_commit"]
"""Points at which the requesting process dies when the session turned out to be free."""
UNDONE = [
    "handoff.request.before_serve",
    "handoff.rollback.before_begin",
    "handoff.rollback.after_begin",
    "handoff.compensation.before_call",
    "handoff.compensation.after_call",
    "handoff.compensation.before_commit",
    "handoff.compensation.after_commit",
    "handoff.rollback.before_commit",
    "handoff.rollback.after_commit",
]
"""Points at which the process that runs the session dies after a request to roll back."""
CANCELLED = [*UNDONE[1:], "handoff.cancel.before_commit", "handoff.cancel.after_commit"]
"""Points at which the cancelling process dies while it rolls back itself."""
NOTED = ["handoff.withdrawn.before_write", "handoff.withdrawn.after_write"]
"""Points at which the withdrawing process dies, or gives up waiting."""
RECORDED = ["handoff.withdrawn.before_commit", "handoff.withdrawn.after_commit"]
"""Points at which the process that runs the session dies while it records that."""
OF_REQUESTS = {
    fault.partition(":")[0]
    for fault in (*SERVED, *ASKED, *TAKEN, *UNDONE, *CANCELLED, *NOTED, *RECORDED)
}
"""All of these points."""

DESK = pytest.mark.parametrize("scene", ["busy"], indirect=True)
MASON = pytest.mark.parametrize("scene", ["mason"], indirect=True)


def kills(points: Iterable[str], *chosen: str) -> pytest.MarkDecorator:
    """A test for each database and point; the normal run has the chosen ones on PostgreSQL."""
    each = [
        pytest.param(database, point, marks=quick(database == "postgres" and point in chosen))
        for database in DATABASES
        for point in points
    ]
    return pytest.mark.parametrize(("database", "fault"), each, indirect=["database"])


def quick(is_quick: bool) -> list[pytest.MarkDecorator]:
    """The marks of a test that is, or is not, for the normal run."""
    return [] if is_quick else [pytest.mark.slow]


async def at_work(scene: Scene, nursery: Nursery, what: str, *, fault: str = "") -> Child:
    """A process that runs the session and is in the middle of a tool."""
    child = nursery.start(scene.job, fault=fault)
    await until(lambda: bool(scene.ledger.lines("at_work", what=what)), f"it works at {what}")
    return child


async def killed_at_work(scene: Scene, nursery: Nursery, what: str) -> None:
    """Kill the process that runs the session in the middle of a tool."""
    child = await at_work(scene, nursery, what)
    nursery.kill_child()
    assert await ended(child) == -signal.SIGKILL


async def ended(child: Child) -> int:
    """Its exit code, waited for beside others."""
    return await asyncio.to_thread(child.wait)


async def request_in(store: Store, scene: Scene) -> Document:
    """The stored request for the process that runs the session."""
    while True:
        documents = await store.list_documents(REQUESTS, prefix=f"{scene.session_id}/")
        if documents:
            return documents[0]
        await store.wait_for_change(0.05)


@asynccontextmanager
async def beside(wish: Awaitable[HandoffResult]) -> AsyncIterator[asyncio.Task[HandoffResult]]:
    """Request it from this process, and wait for the outcome."""
    task = asyncio.ensure_future(wish)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def controller_of(scene: Scene, store: Store) -> HandoffController:
    """A controller in this process."""
    world = World(scene.ledger.folder)
    return HandoffController(busy(world), store, run_config=RunConfig(), context=world)


async def finished(
    scene: Scene, rescuers: Nursery, *, may_lie: bool = False
) -> tuple[Record, HandoffRecord | None]:
    """The session after somebody took what was left of it to the end; and its handoff, if any.

    With `may_lie` a request that nobody waits for any more may be left.
    """
    say(scene, GO)
    await scene.left_by_the_dead()
    assert rescuers.run(scene.job)[1] == 0
    ending = await scene.read()
    check_conversations(ending.events, scene.ledger)
    async with scene.database.open() as store:
        left = await store.list_documents(REQUESTS, prefix=f"{scene.session_id}/")
        assert may_lie or list(left) == []
    assert (ending.row.outcome, ending.row.owner) == ("done", None)
    handoffs = records_of(ending.events)
    assert all(each.status in FINAL for each in handoffs)
    assert len(handoffs) <= 1
    return ending, handoffs[0] if handoffs else None


def say(scene: Scene, word: str) -> None:
    """Whatever works may come to its end, at once or when it was asked to."""
    (scene.ledger.folder / word).touch()


@DESK
@pytest.mark.parametrize(
    ("database", "policy", "fault"),
    [
        pytest.param(
            database, policy, fault, marks=quick(database == "sqlite" and place % 2 == odd)
        )
        for database in DATABASES
        for odd, policy in enumerate(("immediate", "graceful"))
        for place, fault in enumerate(SERVED)
    ],
    indirect=["database"],
)
async def test_the_requester_finishes_the_handoff_when_the_running_process_dies(
    scene: Scene, fault: str, policy: Any, victims: Nursery, rescuers: Nursery
) -> None:
    victim = await at_work(scene, victims, "paper", fault=fault)
    async with scene.database.open() as store:
        wish = controller_of(scene, store).start(scene.session_id, to="orders", policy=policy)
        async with beside(wish) as asked:
            say(scene, GO_WHEN_ASKED)
            assert await ended(victim) == -signal.SIGKILL
            say(scene, GO)
            assert (await asked).status == "completed"
    ending, made = await finished(scene, rescuers)
    assert made is not None
    assert (made.status, made.policy, ending.row.agent) == ("completed", policy, "orders")
    assert scene.ledger.effects() == ["A-42", "paper"]


@DESK
@pytest.mark.parametrize("policy", ["immediate", "graceful"])
@kills(ASKED, ASKED[1])
async def test_a_request_is_executed_or_absent_when_the_requester_dies(
    scene: Scene, fault: str, policy: Any, victims: Nursery, rescuers: Nursery
) -> None:
    runner = await at_work(scene, rescuers, "paper")
    job = scene.job_with(task="hand_over", to="orders", policy=policy)
    assert victims.run(job, fault=fault)[1] == -signal.SIGKILL
    is_asked = fault == "handoff.request.after_write"
    say(scene, GO_WHEN_ASKED if is_asked else GO)
    assert await ended(runner) == 0
    ending, made = await finished(scene, rescuers)
    assert (made is not None, ending.row.agent) == (is_asked, "orders" if is_asked else "desk")
    assert scene.ledger.effects() == (["A-42", "paper"] if is_asked else ["paper"])


@DESK
@kills(TAKEN, TAKEN[0])
async def test_a_handoff_of_a_session_just_released_is_atomic(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery
) -> None:
    runner = await at_work(scene, rescuers, "paper")
    victim = victims.start(scene.job_with(task="hand_over", to="orders"), fault=fault)
    async with scene.database.open() as store:
        await request_in(store, scene)
    rescuers.kill_child()
    assert await ended(runner) == -signal.SIGKILL
    say(scene, GO)  # The call that was left is finished before the session is handed over.
    # The victim may have the session by now, so only the lease of the dead runner may expire.
    await scene.database.expire_leases_of(runner.pid)
    assert await ended(victim) == -signal.SIGKILL
    ending, made = await finished(scene, rescuers, may_lie=True)
    is_made = fault == "handoff.transferring.after_commit"
    assert ending.row.agent == ("desk" if made is None else "orders")
    assert made is not None or not is_made


@MASON
@kills(UNDONE, "handoff.compensation.after_call")
async def test_the_canceller_finishes_when_the_running_process_dies(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery
) -> None:
    victim = await at_work(scene, victims, "stone", fault=fault)
    async with scene.database.open() as store:
        wish = controller_of(scene, store).cancel(f"{scene.session_id}.h1")
        async with beside(wish) as cancelled:
            assert await ended(victim) == -signal.SIGKILL
            assert (await cancelled).status == "rolled_back"
    ending, made = await finished(scene, rescuers)
    check_cancelled(scene, ending, made)


@MASON
@kills(CANCELLED, "handoff.cancel.before_commit")
async def test_cancelling_a_handoff_without_a_running_process_is_atomic(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery
) -> None:
    await killed_at_work(scene, rescuers, "stone")
    await scene.left_by_the_dead()
    job = scene.job_with(task="cancel", handoff=f"{scene.session_id}.h1")
    assert victims.run(job, fault=fault)[1] == -signal.SIGKILL
    ending, made = await finished(scene, rescuers)
    if fault == "handoff.rollback.before_begin":
        assert made is not None
        assert (made.status, ending.row.agent) == ("completed", "mason")
        assert scene.ledger.effects() == ["lorry", "stone"]
    else:
        check_cancelled(scene, ending, made)


def check_cancelled(scene: Scene, ending: Record, made: HandoffRecord | None) -> None:
    """The handoff is undone, and so is what was reserved for it; the source went on."""
    assert made is not None
    assert (made.status, made.code, ending.row.agent) == ("rolled_back", "CANCELLED", "desk")
    assert made.compensated == ("lorry",)
    assert ending.row.variables == {}
    assert scene.ledger.effects() == ["lorry", "no lorry", "stone"]


@DESK
@kills(NOTED, NOTED[1])
async def test_withdrawing_a_request_is_atomic_when_the_process_dies(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery
) -> None:
    runner = await at_work(scene, rescuers, "paper")
    async with scene.database.open() as store:
        async with beside(
            controller_of(scene, store).start(scene.session_id, to="orders")
        ) as asked:
            request = await request_in(store, scene)
            job = scene.job_with(task="cancel", handoff=request.body["id"])
            assert victims.run(job, fault=fault)[1] == -signal.SIGKILL
            say(scene, GO_WHEN_ASKED)
            status = (await asked).status
        assert await ended(runner) == 0
    ending, made = await finished(scene, rescuers)
    is_withdrawn = fault == "handoff.withdrawn.after_write"
    assert status == ("failed" if is_withdrawn else "completed")
    assert made is not None
    assert made.status == status
    assert ending.row.agent == ("desk" if is_withdrawn else "orders")


@DESK
@kills(NOTED, NOTED[1])
async def test_a_late_request_of_a_dead_process_is_not_executed(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery
) -> None:
    runner = await at_work(scene, rescuers, "paper")
    job = scene.job_with(task="hand_over", to="orders", timeout_s=0.2)
    assert victims.run(job, fault=fault)[1] == -signal.SIGKILL
    say(scene, GO_WHEN_ASKED)
    assert await ended(runner) == 0
    ending, made = await finished(scene, rescuers)
    check_late(ending, made)


@DESK
@kills(RECORDED, RECORDED[0])
async def test_a_late_request_is_recorded_once_or_still_pending(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery
) -> None:
    victim = await at_work(scene, victims, "paper", fault=fault)
    async with scene.database.open() as store:
        controller = controller_of(scene, store)
        late = await controller.start(scene.session_id, to="orders", timeout_s=0.2)
    assert late.status == "failed"
    say(scene, GO_WHEN_ASKED)
    assert await ended(victim) == -signal.SIGKILL
    ending, made = await finished(scene, rescuers, may_lie=True)
    if made is not None or fault == "handoff.withdrawn.after_commit":
        check_late(ending, made)
    assert ending.row.agent == "desk"


def check_late(ending: Record, made: HandoffRecord | None) -> None:
    """It is on record that the handoff was not made, and why."""
    assert made is not None
    assert (made.status, made.code, ending.row.agent) == ("failed", "TIMEOUT", "desk")
