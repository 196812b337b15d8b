"""Every request for a handoff gets an outcome: once, in time, and whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.core.context import RunContextWrapper
from ekiden.core.handoffs import HandoffRequest
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import OutOfBudget
from ekiden.handoff.records import records_of
from ekiden.handoff.requests import REQUESTS, removal_of, request_key
from ekiden.runtime import RunConfig, Runner
from ekiden.storage.base import Claim, DocumentWrite, NewSession, SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, hang, say
from ekiden.tools import function_tool
from tests.unit.runtime.findable import findable
from tests.unit.runtime.offices import Digging, Office, ended


class CountingStore(MemoryStore):
    """Counts how often a session is asked for."""

    claims = 0

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        self.claims += 1
        return await super().claim(session_id, owner=owner, lease_s=lease_s, create=create)


async def test_a_handoff_still_open_at_the_end_of_the_run_is_reported_as_open() -> None:
    store = CountingStore()
    office = Digging(store, completes="result")
    running = asyncio.create_task(
        Runner.run(office.team, "dig", session=office.session, max_turns=3)
    )
    await office.busy.wait()
    starting = office.start()
    await office.asked()
    office.let_go.set()
    assert isinstance((await running).outcome, OutOfBudget)
    result = await starting
    assert (result.status, result.error, result.completed_at) == ("transferring", None, None)
    assert store.claims < 10
    assert (await office.session.row()).outcome == "out_of_budget"


async def test_a_request_whose_document_was_removed_is_reported_as_cancelled() -> None:
    office = Office(MemoryStore())
    running = await office.at_work()
    starting = office.start()
    request = await office.asked()
    gone = DocumentWrite(collection=REQUESTS, key=request_key("s", request), body=None)
    await office.store.write_documents([gone])
    assert ended(await starting) == ("failed", "CANCELLED")
    office.let_go.set()
    await running


async def test_the_requester_finishes_the_handoff_when_the_running_process_stops() -> None:
    reached = asyncio.Event()

    class Half(Office):
        def respond(self, request: Any) -> Any:
            if reached.is_set():
                return say("b here")
            reached.set()
            return hang()

    office = Half(MemoryStore())
    running = await office.at_work()
    starting = office.start(policy="immediate")
    await reached.wait()
    running.cancel()
    await asyncio.wait([running])
    assert ended(await starting) == ("completed", None)
    row = await office.session.row()
    assert (row.agent, row.outcome, row.owner) == ("b", "done", None)


class Offered:
    """An `accepts` that waits: the handoff stays in the middle of it."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def __call__(self, ctx: RunContextWrapper[Any], request: HandoffRequest) -> bool:
        self.is_asked.set()
        await self.answer.wait()
        return True


async def test_a_request_withdrawn_while_accepts_runs_is_not_executed() -> None:
    offered = Offered()
    office = Office(MemoryStore(), b={"accepts": offered})
    running = await office.at_work()
    starting = office.start(reason="soon")
    request = await office.asked()
    office.let_go.set()
    await offered.is_asked.wait()
    cancelled = await office.controller.cancel(request, reason="not needed")
    assert ended(cancelled) == ("failed", "CANCELLED")
    offered.answer.set()
    await running
    result = await starting
    assert ended(result) == ("failed", "CANCELLED")
    assert result.error is not None
    assert result.error.message.endswith("before it was made: not needed")
    [record] = records_of(await office.session.events())
    assert (record.id, record.code, record.request) == (result.request_id, "CANCELLED", request)
    row = await office.session.row()
    assert (row.agent, row.outcome, row.owner) == ("a", "done", None)
    assert not await office.documents()


async def test_the_running_process_does_not_execute_a_request_withdrawn_meanwhile() -> None:
    offered = Offered()
    office = Office(MemoryStore(), b={"accepts": offered})
    running = await office.at_work()
    starting = office.start(policy="immediate")
    request = await office.asked()
    await offered.is_asked.wait()
    await office.controller.cancel(request)
    assert ended(await starting) == ("failed", "CANCELLED")
    offered.answer.set()
    office.let_go.set()
    assert (await running).final_output == "a here"
    assert await office.told() == [("failed", "CANCELLED")]
    assert not await office.documents()


async def test_cancelling_a_request_just_executed_rolls_its_handoff_back() -> None:
    class Quick(MemoryStore):
        """A process takes the request up while it is being withdrawn."""

        async def write_documents(self, writes: Sequence[DocumentWrite], **options: Any) -> None:
            if writes[0].body and writes[0].body["state"] == "cancelled":
                office.let_go.set()
                await working.wait()
            await super().write_documents(writes, **options)

    class Slow(Office):
        def respond(self, request: Any) -> Any:
            working.set()
            return hang()

    working = asyncio.Event()
    office = Slow(Quick())
    office.a.run = None
    office.a.model = ScriptedModel(respond=lambda request: call("wait"))

    @function_tool
    async def wait() -> str:
        return await office.work(None)  # type: ignore[arg-type]

    office.a.tools.append(wait)
    running = await office.at_work()
    starting = office.start()
    cancelling = asyncio.create_task(office.controller.cancel(await office.asked()))
    assert ended(await cancelling) == ("rolled_back", "CANCELLED")
    assert ended(await starting) == ("rolled_back", "CANCELLED")
    running.cancel()
    await asyncio.wait([running])


class Approver:
    """Says yes, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def approve(self, request: ConfirmationRequest) -> Approval:
        self.asked += 1
        return Approval(approved=True, by="ann")


async def test_an_approved_request_survives_the_end_of_the_process_that_asked() -> None:
    offered = Offered()
    office = Office(MemoryStore(), b={"accepts": offered}, confirm=True)
    approver = Approver()
    office.config = RunConfig(approver=approver)
    running = await office.at_work()
    starting = office.start(policy="immediate")
    await offered.is_asked.wait()
    assert len(await office.documents()) == 1, "nothing is handed over yet"
    running.cancel()
    await asyncio.wait([running])
    offered.answer.set()
    assert ended(await starting) == ("completed", None)
    assert approver.asked == 1
    assert not await office.documents()
    assert await office.told() == [("completed", None)]


def no_answer(ctx: Any, request: Any) -> None:
    """An `accepts` that forgot to say yes."""


def broken(*anything: Any) -> Any:
    raise RuntimeError("the calendar is away")


WRONG = pytest.mark.parametrize(
    ("b", "terms", "told"),
    [
        ({"accepts": no_answer}, {}, "`accepts` of agent 'b' must return"),
        ({"available": broken}, {}, "the calendar is away"),
        ({}, {"input_filter": lambda data: None}, "must return HandoffInputData"),
    ],
)


@WRONG
@pytest.mark.parametrize("policy", ["immediate", "graceful"])
async def test_a_request_that_fails_in_team_code_is_refused_once(
    b: Any, terms: Any, told: str, policy: Any
) -> None:
    office = Digging(MemoryStore(), b=b, **terms)
    turns: list[str] = []

    def respond(request: Any) -> Any:
        turns.append(request.agent)
        return call("dig") if len(turns) == 1 else say("a here")

    office.model = ScriptedModel(respond=respond)
    office.a.model = office.model
    running = await office.at_work()
    starting = office.start(policy=policy)
    await office.asked()
    office.let_go.set()
    result = await starting
    assert ended(result) == ("failed", "SOURCE_FAILED")
    assert result.error is not None
    assert told in result.error.message
    assert (await running).final_output == "a here"
    assert not await office.documents()


@WRONG
async def test_a_request_that_fails_in_team_code_leaves_an_idle_session_unchanged(
    b: Any, terms: Any, told: str
) -> None:
    office = Office(MemoryStore(), b=b, **terms)
    office.let_go.set()
    await (await office.at_work())
    before = await office.session.row()
    result = await office.start(reason="r")
    assert ended(result) == ("failed", "SOURCE_FAILED")
    after = await office.session.row()
    assert (after.agent, after.outcome, after.owner) == ("a", "done", None)
    assert after.cursor["r"] == before.cursor["r"], "no run was begun"
    [record] = records_of(await office.session.events())
    assert (record.id, record.reason) == (result.request_id, "r")


async def test_an_unfinished_rollback_is_finished_before_a_new_handoff() -> None:
    undone: list[str] = []

    @findable
    async def undo(rollback: Any) -> None:
        undone.append(rollback.key)
        if undone == ["two", "one"]:
            raise asyncio.CancelledError

    async def work(ctx: RunContextWrapper[Any]) -> str:
        await ctx.on_rollback(undo, key="one")
        await ctx.on_rollback(undo, key="two")
        raise RuntimeError("b broke")

    office = Office(MemoryStore())
    office.b.run, office.b.model = work, None
    office.b.handoffs.append(office.c)
    office.a.run, office.a.model = None, ScriptedModel([call("transfer_to_b"), say("a here")])
    running = asyncio.create_task(Runner.run(office.team, "go", session=office.session))
    while "one" not in undone:
        await office.store.wait_for_change(5)
    running.cancel()
    await asyncio.wait([running])
    result = await office.start(to="c")
    assert undone == ["two", "one", "one"]
    assert ended(result) == ("failed", "PERMISSION_DENIED"), "a has it again, and may not"
    assert await office.told() == [
        ("rolled_back", "TARGET_FAILED"),
        ("failed", "PERMISSION_DENIED"),
    ]
    assert (await office.session.row()).agent == "a"


async def test_a_request_executed_just_before_the_claim_is_not_executed_twice() -> None:
    class Late(MemoryStore):
        """Another request is served between a look at the request and the claim."""

        async def claim(
            self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
        ) -> tuple[Claim, SessionRow]:
            for each in await self.list_documents(REQUESTS) if office.let_go.is_set() else ():
                await self.write_documents([removal_of(each)])
            return await super().claim(session_id, owner=owner, lease_s=lease_s, create=create)

    office = Office(Late())
    running = await office.at_work()
    starting = office.start()
    await office.asked()
    office.let_go.set()
    await running
    assert ended(await starting) == ("failed", "CANCELLED")
    assert await office.told() == []
    assert (await office.session.row()).owner is None
