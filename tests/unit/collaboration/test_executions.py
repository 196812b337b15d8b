"""What is agreed is executed once, and its result closes the collaboration."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import pytest

from ekiden.collaboration import Collaboration, Collaborations, CollaborationSettings, run_due
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.collaboration import ProtocolError
from ekiden.core.handoffs import HandoffFailure, HandoffResult
from ekiden.core.values import SYSTEM_CLOCK
from ekiden.storage.base import DocumentWrite
from ekiden.storage.records import EXECUTIONS
from tests.unit.collaboration.offices import SETTINGS, Office, Recorder, path


async def test_an_agreement_is_executed_and_its_result_is_the_outcome() -> None:
    executor = Recorder({"boxes": 7})
    office = Office(executor=executor)
    agreed = await office.agreed(context={"session_id": "s1"})
    [done] = await office.collaborations.resume()
    assert path(done) == ["discovery", "negotiation", "agreement", "execution", "completion"]
    assert done.outcome is not None
    assert done.outcome.ok
    assert (done.outcome.status, done.outcome.result) == ("completed", {"boxes": 7})
    assert done == await office.collaborations.get(agreed.id)
    [seen] = executor.seen
    assert (seen.id, seen.phase, seen.attempts) == (agreed.id, "execution", 1)
    assert seen.context == {"session_id": "s1"}
    assert seen.agreed == agreed.agreed
    assert await office.timers() == []
    assert await office.store.list_documents(EXECUTIONS) == []


async def test_both_participants_are_notified_of_the_completion() -> None:
    office = Office(executor=Recorder())
    await office.agreed()
    await office.collaborations.resume()
    for name in ("ann", "bob"):
        last = (await office.mail(name))[-1]
        incoming = await office.collaborations.receive(name, last)
        assert (incoming.move, incoming.message.by) == ("complete", "ekiden")
        assert incoming.message.body["outcome"]["status"] == "completed"


async def test_an_agreement_is_executed_once() -> None:
    executor = Recorder()
    office = Office(executor=executor)
    await office.agreed()
    await asyncio.gather(*(office.collaborations.resume() for _ in range(5)))
    await office.collaborations.resume()
    assert len(executor.seen) == 1


async def test_only_agreed_collaborations_are_executed() -> None:
    executor = Recorder()
    office = Office(executor=executor)
    offer = await office["ann"].propose("bob", "x")
    await office["bob"].accept(offer.id, 1)
    cancelled = await office.agreed()
    await office["ann"].cancel(cancelled.id)
    assert await office.collaborations.resume() == []
    assert executor.seen == []


def handoff(status: Any, error: HandoffFailure | None = None) -> HandoffResult:
    return HandoffResult(request_id="h1", status=status, source="ann", target="bob", error=error)


@pytest.mark.parametrize(
    ("result", "status", "reason"),
    [
        (handoff("completed"), "completed", ""),
        (handoff("rolled_back"), "failed", "the handoff is rolled_back"),
        (
            handoff("failed", HandoffFailure(code="DECLINED", message="closed on Sundays")),
            "failed",
            "closed on Sundays",
        ),
        (ValueError("no boxes"), "failed", "ValueError: no boxes"),
        (UserError("set up wrongly"), "failed", "set up wrongly"),
        (ValueError(), "failed", "ValueError: "),
        (asyncio.CancelledError(), "failed", "it cancelled itself"),
        ("text", "completed", ""),
    ],
)
async def test_the_outcome_has_the_status_of_the_result(
    result: Any, status: str, reason: str
) -> None:
    office = Office(executor=Recorder(result))
    await office.agreed()
    [done] = await office.collaborations.resume()
    assert done.phase == "completion"
    assert done.outcome is not None
    assert (done.outcome.status, done.outcome.reason) == (status, reason)


async def test_an_unfinished_execution_is_polled_until_it_ends() -> None:
    executor = Recorder(handoff("transferring"))
    office = Office(executor=executor)
    agreed = await office.agreed()
    looks = office.collaborations.settings.max_attempts + 2
    for _ in range(looks):
        assert await office.collaborations.resume() == []
    waiting = await office.collaborations.get(agreed.id)
    assert (waiting.phase, waiting.attempts, waiting.outcome) == ("execution", 1, None)
    moves = [each["move"] for each in await office.told()]
    assert moves.count("execute") == 1, "a look is no new beginning"
    executor.result = handoff("completed")
    [done] = await office.collaborations.resume()
    assert done.outcome is not None
    assert (done.outcome.status, len(executor.seen)) == ("completed", looks + 1)
    assert await office.store.list_documents(EXECUTIONS) == []


async def test_concurrent_polls_execute_once() -> None:
    executor = Recorder(handoff("initiated"))
    office = Office(executor=executor)
    await office.agreed()
    await office.collaborations.resume()
    executor.result = handoff("completed")
    others = Collaborations(office.bus, executor=executor, settings=SETTINGS)
    done = await asyncio.gather(*(each.resume() for each in (office.collaborations, others) * 2))
    assert len([each for ended in done for each in ended]) == 1
    assert len(executor.seen) == 2


async def test_run_forever_settles_an_unfinished_execution() -> None:
    executor = Recorder(handoff("transferring"))
    office = Office(executor=executor, clock=SYSTEM_CLOCK)
    agreed = await office.agreed()
    await office.collaborations.resume()
    executor.result = handoff("rolled_back")
    serving = asyncio.create_task(office.collaborations.run())
    async with asyncio.timeout(60):
        while not (found := await office.collaborations.get(agreed.id)).is_closed:
            await office.store.wait_for_change(1)
    serving.cancel()
    assert found.outcome is not None
    assert found.outcome.status == "failed"


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        ({1, 2}, {"text": "{1, 2}"}),
        (Unshowable(), {"text": "(a Unshowable that cannot be shown)"}),
        (float("nan"), {"text": "nan"}),
    ],
)
async def test_a_result_that_is_not_json_is_stored_as_text(result: Any, stored: Any) -> None:
    office = Office(executor=Recorder(result))
    await office.agreed()
    [done] = await office.collaborations.resume()
    assert done.outcome is not None
    assert done.outcome.ok
    assert done.outcome.result == stored


async def test_an_exception_without_a_text_is_recorded() -> None:
    office = Office(executor=Recorder(Unspeakable()))
    await office.agreed()
    [done] = await office.collaborations.resume()
    assert done.outcome is not None
    assert done.outcome.reason == "Unspeakable: (it cannot be shown)"


async def test_a_huge_result_is_truncated() -> None:
    office = Office(executor=Recorder("x" * 1_000_000))
    await office.agreed()
    [done] = await office.collaborations.resume()
    assert done.outcome is not None
    assert done.outcome.result["bytes"] == 1_000_002
    assert len(done.outcome.result["text"]) <= 2000


@dataclass
class Slow:
    """An executor that waits to be told to go on."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0
    seen: list[Collaboration] = field(default_factory=list)
    stubborn: bool = False

    async def execute(self, collaboration: Collaboration) -> str:
        self.seen.append(collaboration)
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            if not self.stubborn:
                raise
        return "done"


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("name", ["ann", "bob"])
async def test_cancelling_stops_the_execution(name: str, stubborn: bool) -> None:
    slow = Slow(stubborn=stubborn)
    office = Office(executor=slow)
    agreed = await office.agreed()
    resuming = asyncio.ensure_future(office.collaborations.resume())
    await slow.begun.wait()
    done = await office[name].cancel(agreed.id)
    assert path(done) == ["discovery", "negotiation", "agreement", "execution", "cancelled"]
    assert await asyncio.wait_for(resuming, 60) == []
    assert slow.cancelled == 1
    assert await office.collaborations.get(agreed.id) == done


async def test_a_result_after_a_cancel_is_recorded_and_changes_nothing() -> None:
    office = Office()

    class Late:
        async def execute(self, collaboration: Collaboration) -> str:
            await office["ann"].cancel(collaboration.id)
            return "done"

    collaborations = Collaborations(office.bus, executor=Late(), settings=SETTINGS)
    agreed = await office.agreed()
    assert await collaborations.resume() == []
    assert (await collaborations.get(agreed.id)).phase == "cancelled"
    late = (await office.told())[-1]
    assert (late["move"], late["late"], late["phase"]) == ("complete", "completed", "cancelled")


async def test_a_collaboration_that_expires_during_execution_is_expired() -> None:
    office = Office()

    class Long:
        async def execute(self, collaboration: Collaboration) -> str:
            office.store.advance(4000)
            return "done"

    collaborations = Collaborations(office.bus, executor=Long(), settings=SETTINGS)
    agreed = await office.agreed()
    assert await collaborations.resume() == []
    found = await collaborations.get(agreed.id)
    assert path(found) == ["discovery", "negotiation", "agreement", "execution", "expired"]


async def test_an_execution_of_a_dead_process_is_taken_over() -> None:
    office = Office()
    slow, executor = Slow(), Recorder()
    first = Collaborations(office.bus, executor=slow, settings=SETTINGS)
    second = Collaborations(office.bus, executor=executor, settings=SETTINGS)
    agreed = await office.agreed()
    dying = asyncio.ensure_future(first.resume())
    await slow.begun.wait()
    assert await second.resume() == [], "the first one has a lease"
    office.store.advance(SETTINGS.lease_s + 1)
    [done] = await second.resume()
    assert (done.phase, done.attempts) == ("completion", 2)
    assert [each.id for each in executor.seen] == [agreed.id]
    assert await asyncio.wait_for(dying, 60) == []
    assert slow.cancelled == 1
    assert (await office.collaborations.get(agreed.id)).outcome == done.outcome


async def test_a_process_that_resumes_after_a_takeover_changes_nothing() -> None:
    office = Office()
    executor = Recorder({"by": "second"})
    second = Collaborations(office.bus, executor=executor, settings=SETTINGS)

    class Paused:
        async def execute(self, collaboration: Collaboration) -> Any:
            office.store.advance(SETTINGS.lease_s + 1)
            # The first process stands still meanwhile, and cannot notice that it lost its lease.
            taking_over = Thread(target=asyncio.run, args=[second.resume()])
            taking_over.start()
            taking_over.join()
            return {"by": "first"}

    first = Collaborations(office.bus, executor=Paused(), settings=SETTINGS)
    agreed = await office.agreed()
    assert await first.resume() == []
    found = await office.collaborations.get(agreed.id)
    assert found.outcome is not None
    assert found.outcome.result == {"by": "second"}
    completions = [each for each in await office.told() if each["move"] == "complete"]
    assert [each.get("late") for each in completions] == [None, "completed"]


async def test_a_process_that_lost_its_lease_cannot_complete() -> None:
    office = Office()
    slow = Slow()
    second = Collaborations(office.bus, executor=slow, settings=SETTINGS)

    async with asyncio.TaskGroup() as group:

        class Paused:
            async def execute(self, collaboration: Collaboration) -> Any:
                office.store.advance(SETTINGS.lease_s + 1)
                group.create_task(second.resume())
                await slow.begun.wait()
                return {"by": "first"}

        first = Collaborations(office.bus, executor=Paused(), settings=SETTINGS)
        agreed = await office.agreed()
        assert await first.resume() == []
        assert (await office.collaborations.get(agreed.id)).phase == "execution"
        slow.go_on.set()
    found = await office.collaborations.get(agreed.id)
    assert found.outcome is not None
    assert (found.outcome.result, found.attempts) == ("done", 2)


async def test_a_lease_is_renewed_during_the_execution() -> None:
    settings = CollaborationSettings(lease_s=0.15)
    slow, other = Slow(), Recorder()
    office = Office(executor=slow, settings=settings)
    second = Collaborations(office.bus, executor=other, settings=settings)
    agreed = await office.agreed()
    resuming = asyncio.ensure_future(office.collaborations.resume())
    await slow.begun.wait()
    for _ in range(4):
        before = await office.store.get_document(EXECUTIONS, agreed.id)
        office.store.advance(0.1)
        assert await second.resume() == []
        while await office.store.get_document(EXECUTIONS, agreed.id) == before:
            await office.store.wait_for_change(0.05)
    slow.go_on.set()
    [done] = await asyncio.wait_for(resuming, 60)
    assert (done.phase, done.attempts, other.seen) == ("completion", 1, [])


async def test_a_stopped_execution_is_taken_over_immediately() -> None:
    office = Office()
    slow, executor = Slow(), Recorder()
    first = Collaborations(office.bus, executor=slow, settings=SETTINGS)
    await office.agreed()
    stopping = asyncio.ensure_future(first.resume())
    await slow.begun.wait()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    second = Collaborations(office.bus, executor=executor, settings=SETTINGS)
    [done] = await second.resume()
    assert (done.phase, done.attempts) == ("completion", 2)


async def test_a_store_outage_postpones_the_execution() -> None:
    executor = Recorder(StoreUnavailable("gone for a while"))
    office = Office(executor=executor)
    agreed = await office.agreed()
    with pytest.raises(StoreUnavailable):
        await office.collaborations.resume()
    assert (await office.collaborations.get(agreed.id)).phase == "execution"
    executor.result = "done"
    [done] = await office.collaborations.resume()
    assert (done.phase, done.attempts) == ("completion", 2)


async def test_an_execution_that_never_finishes_fails_after_some_attempts() -> None:
    executor = Recorder(StoreUnavailable("gone for ever"))
    office = Office(executor=executor, settings=CollaborationSettings(max_attempts=3))
    await office.agreed()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await office.collaborations.resume()
    [done] = await office.collaborations.resume()
    assert len(executor.seen) == 3
    assert done.outcome is not None
    assert done.outcome.reason == "it was started 3 times and never finished"


async def test_an_execution_without_its_collaboration_is_ignored() -> None:
    executor = Recorder()
    office = Office(executor=executor)
    for key, body in (("col_gone", {"owner": "", "until_us": 0}), ("col_odd", ["?"])):
        await office.store.write_documents(
            [DocumentWrite(collection=EXECUTIONS, key=key, body=body)]
        )
    assert await office.collaborations.resume() == []
    assert executor.seen == []


async def test_without_an_executor_agreements_stay_pending(office: Office) -> None:
    agreed = await office.agreed()
    assert await office.collaborations.resume() == []
    assert (await office.collaborations.get(agreed.id)).phase == "agreement"
    other = Collaborations(office.bus, executor=Recorder(), settings=SETTINGS)
    assert [each.id for each in await other.resume()] == [agreed.id]


async def test_run_handles_due_work_until_it_is_cancelled() -> None:
    executor = Recorder()
    office = Office(executor=executor, clock=SYSTEM_CLOCK)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(office.collaborations.run())
        agreed = await office.agreed()
        done = await office["ann"].wait_for(agreed.id)
        assert done.phase == "completion"
        offer = await office["ann"].propose("bob", "x", deadline_s=0.05)
        expired = await office["bob"].wait_for(offer.id)
        assert expired.phase == "expired"
        running.cancel()
    assert len(executor.seen) == 1


async def test_run_executes_concurrently_up_to_the_limit() -> None:
    slow = Slow()
    office = Office(executor=slow, settings=CollaborationSettings(concurrency=2))
    ids = [(await office.agreed()).id for _ in range(3)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(office.collaborations.run())
        while len(slow.seen) < 2:
            await office.store.wait_for_change(1)
        await office["ann"].propose("bob", "something else")
        assert len(slow.seen) == 2
        slow.go_on.set()
        for each in ids:
            await office["ann"].wait_for(each)
        running.cancel()
    assert sorted(each.id for each in slow.seen) == sorted(ids)


async def test_wait_for_times_out(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x")
    with pytest.raises(TimeoutError):
        await office["ann"].wait_for(offer.id, timeout_s=0.01)
    found = await office["ann"].wait_for(offer.id, lambda each: each.phase == "negotiation")
    assert found.id == offer.id


async def test_timers_expire_collaborations_without_a_reader(office: Office) -> None:
    offer = await office["ann"].propose("bob", "x", deadline_s=20)
    kept = await office["ann"].propose("bob", "y", deadline_s=50)
    assert await run_due(office.store) == 0
    office.store.advance(21)
    assert await run_due(office.store) == 1
    assert (await office.told())[-1]["move"] == "expire"
    [timer] = await office.timers()
    assert timer.endswith(kept.id)
    office.store.advance(40)
    [ended] = await office.collaborations.resume()
    assert (ended.id, ended.phase) == (kept.id, "expired")
    assert (await office.collaborations.get(offer.id)).phase == "expired"


async def test_an_agreement_expires_after_its_lifetime_not_its_deadline(office: Office) -> None:
    agreed = await office.agreed()
    office.store.advance(100)
    assert (await office.collaborations.get(agreed.id)).phase == "agreement"
    office.store.advance(3600)
    assert (await office.collaborations.get(agreed.id)).phase == "expired"
    assert await office.store.list_documents(EXECUTIONS) == []
    with pytest.raises(ProtocolError):
        await office["ann"].cancel(agreed.id)


async def test_cleanup_removes_old_closed_collaborations_only() -> None:
    office = Office(executor=Recorder())
    open_one = await office["ann"].call(["sql"], participants=["bob"])
    old = await office["ann"].propose("bob", "x")
    await office["bob"].reject(old.id)
    done = await office.agreed()
    await office.collaborations.resume()
    office.store.advance(1000)
    young = await office["ann"].propose("bob", "y")
    await office["bob"].reject(young.id)
    assert await office.collaborations.cleanup() == 0
    assert await office.collaborations.cleanup(older_than_s=500) == 2
    kept = [each.id for each in await office.collaborations.list()]
    assert set(kept) == {open_one.id, young.id}
    assert done.id not in kept
    with pytest.raises(UserError):
        await office.collaborations.cleanup(-1)
    office.store.advance(100_000)
    assert await office.collaborations.cleanup() == 1
    assert [each.id for each in await office.collaborations.list()] == [open_one.id]
