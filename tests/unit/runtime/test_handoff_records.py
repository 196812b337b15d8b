"""Every handoff that anybody asks for is on record, from its first moment to its last."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden import (
    Agent,
    HandoffController,
    HandoffQuery,
    MemoryStore,
    RunConfig,
    Runner,
    Session,
    find_handoffs,
    handoff,
)
from ekiden.audit import find_records
from ekiden.core.handoffs import HandoffContext, HandoffRequest, HandoffResult
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Waiting
from ekiden.inbox import Inbox
from ekiden.storage.base import Store
from ekiden.testing import ScriptedModel, call, say, transfer
from tests.unit.runtime.offices import Digging, Office


async def on_record(store: Store, handoff_id: str) -> tuple[list[str], str | None]:
    """The moves and the code of a handoff, as every way to read it tells them."""
    record = await HandoffController(Agent("any"), store).get(handoff_id)
    page = await find_handoffs(store, HandoffQuery(agent=record.target))
    assert [each for each in page.records if each.id == handoff_id] == [record]
    return [move.status for move in record.moves], record.code


@pytest.mark.parametrize(("end", "code"), [("late", "TIMEOUT"), ("cancel", "CANCELLED")])
async def test_a_failed_request_is_recorded_under_its_id(end: str, code: str) -> None:
    office = Office(MemoryStore())
    running = await office.at_work()
    options = {"timeout_s": 0.01} if end == "late" else {"wait_s": 0}
    result = await office.start(**options)
    if end == "cancel":
        assert await on_record(office.store, result.request_id) == (["initiated"], None)
        result = await office.controller.cancel(result.request_id)
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", code)
    asked = await on_record(office.store, result.request_id)
    office.let_go.set()
    await running
    made = await on_record(office.store, result.request_id)
    assert asked == made == (["initiated", "failed"], code)
    assert len(await find_records(office.store, result.request_id)) == 2


async def test_a_request_executed_later_keeps_its_id() -> None:
    office = Digging(MemoryStore())
    running = await office.at_work()
    asked = await office.start(wait_s=0)
    office.let_go.set()
    await running
    [record] = (await find_handoffs(office.store)).records
    assert (record.id, record.status) == (asked.request_id, "completed")


class Approved:
    """`a` hands to `b` if a person approves of it in the inbox."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.config = RunConfig(approver="inbox")
        self.session = Session("s", store=self.store)
        model = ScriptedModel([transfer("b", reason="why"), say("here")])
        self.a = Agent("a", model=model, handoffs=[handoff(Agent("b", model=model), confirm=True)])

    async def wait(self) -> Any:
        await Runner.run(self.a, "hi", session=self.session, run_config=self.config)
        assert await on_record(self.store, "s.h1") == (["initiated", "validating"], None)
        return (await Inbox(self.store).list()).items[0]


async def test_a_handoff_that_waits_for_approval_is_recorded_and_continues() -> None:
    case = Approved()
    item = await case.wait()
    await Inbox(case.store).answer(item.id, choice="approve", by="anna")
    await Runner.resume(case.a, case.session, run_config=case.config)
    moves = ["initiated", "validating", "transferring", "completed"]
    assert await on_record(case.store, "s.h1") == (moves, None)
    assert len((await find_handoffs(case.store)).records) == 1


async def test_a_new_message_cancels_a_handoff_that_waits_for_approval() -> None:
    case = Approved()
    await case.wait()
    await Runner.run(case.a, "never mind", session=case.session, run_config=case.config)
    moves = ["initiated", "validating", "failed"]
    assert await on_record(case.store, "s.h1") == (moves, "CANCELLED")


async def test_a_request_from_an_unknown_source_is_recorded_and_leaves_the_task() -> None:
    office = Office(MemoryStore())
    context = HandoffContext(task_id="t")
    wrong = HandoffRequest(source="nobody", target="b", context=context)
    result = await office.controller.initiate(wrong)
    moves = ["initiated", "validating", "failed"]
    assert await on_record(office.store, result.request_id) == (moves, "AGENT_NOT_FOUND")
    right = HandoffRequest(source="a", target="b", context=context)
    assert (await office.controller.initiate(right)).status == "completed"


async def test_a_handoff_is_recorded_while_accepts_runs() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def accepts(ctx: Any, request: HandoffRequest) -> bool:
        asked.set()
        await answer.wait()
        return True

    office = Office(MemoryStore(), b={"accepts": accepts})
    request = HandoffRequest(
        id="", source="a", target="b", context=HandoffContext(task_id="t", task_state={"x": 1})
    )
    starting = asyncio.create_task(office.controller.initiate(request))
    await asked.wait()
    assert await on_record(office.store, "t.h1") == (["initiated", "validating"], None)
    assert (await office.store.get("t")).variables == {}
    answer.set()
    assert (await starting).request_id == "t.h1"
    moves = ["initiated", "validating", "transferring", "completed"]
    assert await on_record(office.store, "t.h1") == (moves, None)
    assert (await office.store.get("t")).variables == {"x": 1}


async def test_a_refused_handoff_keeps_another_one_waiting_for_approval() -> None:
    case = Approved()

    async def accepts(ctx: Any, request: HandoffRequest) -> bool:
        return False

    case.a.handoffs = [*case.a.handoffs, Agent("c", accepts=accepts)]
    item = await case.wait()
    controller = HandoffController(case.a, case.store, run_config=case.config)
    assert (await controller.start("s", to="c")).status == "failed"
    assert await on_record(case.store, "s.h1") == (["initiated", "validating"], None)
    await Inbox(case.store).answer(item.id, choice="approve", by="anna")
    await Runner.resume(case.a, case.session, run_config=case.config)
    moves = ["initiated", "validating", "transferring", "completed"]
    assert await on_record(case.store, "s.h1") == (moves, None)
    assert await on_record(case.store, "s.h2") == (
        ["initiated", "validating", "failed"],
        "DECLINED",
    )


async def test_a_withdrawn_request_keeps_its_metadata_and_settlement_time() -> None:
    office = Office(MemoryStore())
    running = await office.at_work()
    asked = await office.start(wait_s=0, priority=3, metadata={"ticket": "七"})
    await office.controller.cancel(asked.request_id)
    before = await office.controller.get(asked.request_id)
    office.let_go.set()
    await running
    after = await office.controller.get(asked.request_id)
    assert (after.priority, after.metadata) == (3, {"ticket": "七"})
    assert (before.priority, before.metadata) == (3, {"ticket": "七"})
    assert after.settled_at == before.settled_at


async def test_a_request_during_the_last_step_is_executed_after_the_run() -> None:
    office = Office(MemoryStore())
    running = await office.at_work()
    asked = await office.start(wait_s=0)
    office.let_go.set()
    assert (await running).final_output == "a here"
    moves = ["initiated", "validating", "transferring"]
    assert await on_record(office.store, asked.request_id) == (moves, None)
    assert (await Runner.resume(office.team, office.session)).final_output == "b here"
    assert await on_record(office.store, asked.request_id) == ([*moves, "completed"], None)


class Asked(Digging):
    """A handoff that needs approval was requested while `a` was at work."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), confirm=True)
        self.config = RunConfig(approver="inbox")

    def respond(self, request: Any) -> Any:
        return call("dig") if len(request.input) == 1 else say(f"{request.agent} here")

    async def suspended(self, **options: Any) -> tuple[asyncio.Task[HandoffResult], InboxItem]:
        """The request, and what the person is asked."""
        running = await self.at_work()
        asking = self.start(metadata={"n": 1}, **options)
        self.handoff_id = await self.asked()
        self.let_go.set()
        assert isinstance((await running).outcome, Waiting)
        assert await on_record(self.store, self.handoff_id) == (["initiated", "validating"], None)
        [item] = (await Inbox(self.store).list()).items
        return asking, item

    async def resume(self) -> Any:
        return await Runner.resume(self.team, self.session, run_config=self.config)


async def test_a_caller_waiting_for_a_handoff_leaves_its_approval_to_the_inbox() -> None:
    office = Asked()
    asking, item = await office.suspended()
    await asyncio.sleep(0)
    await Inbox(office.store).answer(item.id, choice="approve", by="anna")
    result = await asking
    assert (result.request_id, result.status) == (office.handoff_id, "completed")
    assert (await office.session.row()).agent == "b"


async def test_the_request_timeout_does_not_limit_the_approval() -> None:
    office = Asked()
    asking, item = await office.suspended(timeout_s=0.3)
    assert (await asking).status == "validating"
    await Inbox(office.store).answer(item.id, choice="approve", by="anna")
    assert (await office.resume()).final_output == "b here"
    moves = ["initiated", "validating", "transferring", "completed"]
    assert await on_record(office.store, office.handoff_id) == (moves, None)


async def test_cancelling_a_request_withdraws_its_approval_and_resumes_the_run() -> None:
    office = Asked()
    _, item = await office.suspended(wait_s=0)
    result = await office.controller.cancel(office.handoff_id)
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "CANCELLED")
    assert (await Inbox(office.store).get(item.id)).status == "cancelled"
    assert (await office.session.row()).status == "ready"
    assert (await office.resume()).final_output == "a here"


async def test_a_request_waiting_for_approval_survives_a_new_message() -> None:
    office = Asked()
    _, item = await office.suspended(wait_s=0)
    await Runner.run(office.team, "hello?", session=office.session, run_config=office.config)
    [again] = (await Inbox(office.store).list()).items
    assert again.id != item.id
    await Inbox(office.store).answer(again.id, choice="approve", by="anna")
    assert (await office.resume()).final_output == "b here"
    moves = ["initiated", "validating", "transferring", "completed"]
    assert await on_record(office.store, office.handoff_id) == (moves, None)
