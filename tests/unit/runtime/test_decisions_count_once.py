"""A decision of a person counts once: a rewind does not use it again."""

from __future__ import annotations

import pytest

from ekiden import Agent, RunConfig, Runner, Session, Team, function_tool, handoff
from ekiden.core.current_agent import acting_as
from ekiden.core.handoffs import Actor
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.inbox import Inbox
from ekiden.runtime import HandoffController
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say

INBOX = RunConfig(approver="inbox")


class Till:
    """A tool that has to be confirmed, and how often it was run."""

    def __init__(self) -> None:
        self.paid = 0

    def agent(self) -> Agent:
        @function_tool(confirmation=True)
        def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        def answer(request: object) -> object:
            last = request.input[-1]  # type: ignore[attr-defined]  # any request of a model
            return say("done") if last.get("type") == "function_call_output" else call("pay")

        return Agent("desk", model=ScriptedModel(respond=answer), tools=[pay])


async def answered(store: MemoryStore, till: Till) -> tuple[Session, list[int]]:
    """A session in which one call was confirmed and made; the numbers of its confirmations."""
    session = Session("s", store=store)
    await Runner.run(till.agent(), "pay", session=session, run_config=INBOX)
    inbox = Inbox(store)
    [item] = (await inbox.list()).items
    await inbox.answer(item.id, choice="approve", by="ada")
    await Runner.resume(till.agent(), session, run_config=INBOX)
    assert till.paid == 1
    kinds = ("tool_confirmation", "inbox")
    return session, [event.seq for event in await session.events() if event.type in kinds]


async def test_a_branch_asks_again_for_an_approval_of_an_open_call() -> None:
    store, till = MemoryStore(), Till()
    _, places = await answered(store, till)
    for place in places:
        branch = await fork_session(store, "s", at_seq=place)
        result = await Runner.resume(till.agent(), branch, run_config=INBOX)
        assert result.outcome.kind == "waiting"
    assert till.paid == 1


async def test_a_rewind_asks_again_for_an_approval_of_an_open_call() -> None:
    store, till = MemoryStore(), Till()
    session, places = await answered(store, till)
    for place in reversed(places):
        await rewind_session(store, "s", to_seq=place)
        result = await Runner.resume(till.agent(), session, run_config=INBOX)
        assert result.outcome.kind == "waiting"
    assert till.paid == 1


def vaulted() -> Team:
    vault = Agent("vault", model=ScriptedModel(respond=lambda _: say("in the vault")))
    edges = [handoff(vault, confirm=True)]
    front = Agent("front", model=ScriptedModel(respond=lambda _: say("hello")), handoffs=edges)
    return Team(front, vault)


async def in_front(store: MemoryStore) -> HandoffController:
    team = vaulted()
    await Runner.run(team, "hi", session=Session("s", store=store), run_config=INBOX)
    return HandoffController(team, store, run_config=INBOX)


async def test_a_handoff_started_by_a_person_needs_no_approval() -> None:
    store = MemoryStore()
    controller = await in_front(store)
    result = await controller.start("s", to="vault", by=Actor(kind="person", name="ada"))
    assert (result.status, (await store.get("s")).agent) == ("completed", "vault")


async def test_an_agent_that_claims_to_be_a_person_is_recorded_as_a_program() -> None:
    store = MemoryStore()
    controller = await in_front(store)
    with acting_as("front"):
        result = await controller.start("s", to="vault", by=Actor(kind="person", name="ada"))
    assert result.error is not None
    assert result.error.code == "NOT_APPROVED"
    record = await controller.get(result.request_id)
    assert record.by == Actor(kind="program", name="front")
    assert (await store.get("s")).agent == "front"


@pytest.mark.parametrize("run", [True, False])
async def test_a_programs_handoff_that_needs_approval_fails_without_an_approver(
    run: bool,
) -> None:
    store = MemoryStore()
    controller = await in_front(store)
    before = await store.get("s")
    result = await controller.start("s", to="vault", run=run)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "NOT_APPROVED"
    assert "ekiden handoff start" in result.error.message
    row = await store.get("s")
    assert (row.agent, row.owner, row.outcome) == ("front", None, before.outcome)
    assert not (await Inbox(store).list()).items


async def test_a_programs_handoff_asks_a_direct_approver() -> None:
    class Yes:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            return Approval(approved=True, by="ada")

    store = MemoryStore()
    await in_front(store)
    controller = HandoffController(vaulted(), store, run_config=RunConfig(approver=Yes()))
    assert (await controller.start("s", to="vault")).status == "completed"
