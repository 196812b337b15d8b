"""What people are asked: approvals, confirmations of tools, and conversations handed to them."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.audit import AuditQuery, audit_records
from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxForbidden, InboxItemClosed
from ekiden.core.profile import Confirmation
from ekiden.core.questions import EscalationStep
from ekiden.core.runs import Waiting
from ekiden.core.values import Priority
from ekiden.engine import submit
from ekiden.handoff import handoff, person
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime import CodeContext, HandoffController, RunConfig, Runner
from ekiden.runtime.questions.due import run_timers
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import TIMERS
from ekiden.testing import ManualClock, ScriptedModel, call, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.asking.desks import (
    open_items,
    outcome,
    said,
    submitted,
    team_of,
    work,
)


async def desk(ctx: CodeContext[Any]) -> str:
    answer = await ctx.request_approval(
        "15 % discount?", ("yes", "no"), {"customer": 42}, body="a good customer"
    )
    return f"{answer.choice} by {answer.by} via {answer.via}: {answer.text}"


async def test_a_person_answers_in_the_inbox_and_the_run_resumes_with_the_answer() -> None:
    store = MemoryStore()
    session, team = Session("s", store=store), team_of(desk=desk)
    result = await Runner.run(team, "go", session=session)
    assert result.outcome == Waiting("person:operator")
    [item] = await open_items(store)
    assert (item.kind, item.from_agent, item.session_id) == ("approval", "desk", "s")
    assert (item.subject, item.body) == ("15 % discount?", "a good customer")
    assert (item.options, item.context) == (("yes", "no"), {"customer": 42})
    await Inbox(store).answer(item.id, choice="yes", text="好的", by="美咲", via="terminal")
    result = await Runner.wait(team, session)
    assert result.final_output == "yes by 美咲 via terminal: 好的"
    inbox = [event.details for event in result.events if event.type == "inbox"]
    assert [(each or {})["item"] for each in inbox] == [item.id, item.id]
    assert (inbox[1] or {})["answer"]["by"] == "美咲"


async def test_each_answer_wakes_only_its_own_session() -> None:
    store, team = MemoryStore(), team_of(desk=desk)
    for number in range(20):
        await submit(team, "go", session=Session(f"s{number}", store=store))
    await work(store, team)
    items = {item.session_id: item for item in await open_items(store)}
    assert len(items) == 20
    for number in (7, 3, 19):
        await Inbox(store).answer(items[f"s{number}"].id, choice="no", by="mira", text=str(number))
        await work(store, team)
        assert await said(store, f"s{number}") == f"no by mira via program: {number}"
    states = [await outcome(store, f"s{number}") for number in range(20)]
    assert states.count(("waiting", "waiting")) == 17
    assert states.count(("idle", "done")) == 3


async def test_the_default_is_taken_when_the_deadline_is_over() -> None:
    clock = ManualClock()
    store, config = MemoryStore(clock), RunConfig(clock=clock)

    async def hurried(ctx: CodeContext[Any]) -> str:
        answer = await ctx.request_approval("?", deadline_s=60, default="reject")
        return f"{answer.choice} by {answer.by}"

    await submitted(store, team_of(desk=hurried), config)
    clock.advance(61)
    await run_timers(store)
    await work(store, team_of(desk=hurried), config)
    assert await said(store) == "reject by nobody"


async def test_a_withdrawn_question_is_an_error_that_the_code_can_handle() -> None:
    async def careful(ctx: CodeContext[Any]) -> str:
        try:
            return (await ctx.request_approval("?")).choice
        except InboxItemClosed as exc:
            return f"then not ({exc.status})"

    store = MemoryStore()
    await submitted(store, team_of(desk=careful))
    [item] = await open_items(store)
    await Inbox(store).cancel(item.id, by="mira")
    await work(store, team_of(desk=careful))
    assert await said(store) == "then not (cancelled)"


async def test_the_role_and_the_escalation_chain_come_from_the_run_config() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    config = RunConfig(
        clock=clock, operator="当番", escalation=(EscalationStep(role="manager", after_s=600),)
    )
    await submitted(store, team_of(desk=desk), config)
    [item] = await open_items(store)
    assert item.role == "当番"
    assert await outcome(store) == ("waiting", "waiting")
    clock.advance(601)
    await run_timers(store)
    assert (await Inbox(store).get(item.id)).role == "manager"


async def test_a_question_that_waited_for_people_leaves_no_timer() -> None:
    async def clerk(ctx: CodeContext[Any]) -> str:
        first = await ctx.request_approval("15 % off?", ("no", "yes"))
        return (
            first.choice + (await ctx.request_approval("and free delivery?", ("no", "yes"))).choice
        )

    async def front(ctx: CodeContext[Any]) -> str:
        return str(await ctx.ask("clerk", "a discount", timeout_s=600))

    clock = ManualClock()
    store, config = MemoryStore(clock), RunConfig(clock=clock)
    team = team_of(front=front, clerk=clerk)
    await submitted(store, team, config)
    for choice in ("yes", "no"):
        clock.advance(60)
        [item] = await open_items(store)
        await Inbox(store).answer(item.id, choice=choice, by="mira")
        await work(store, team, config)
    assert await said(store) == "yesno"
    assert await store.list_documents(TIMERS) == []


async def test_a_question_to_people_needs_a_session_in_a_store() -> None:
    with pytest.raises(UserError, match="give it a session in a store"):
        await Runner.run(team_of(desk=desk), "go")


@pytest.mark.parametrize(
    "wrong",
    [
        {"subject": ""},
        {"subject": "?", "default": "maybe"},
        {"subject": "?", "deadline_s": -1},
        {"subject": "?", "priority": 9},
        {"subject": "?", "context": object()},
    ],
)
async def test_an_invalid_question_to_people_is_refused(wrong: Any) -> None:
    async def asks(ctx: CodeContext[Any]) -> Any:
        return await ctx.request_approval(**wrong)

    store = MemoryStore()
    with pytest.raises(UserError):
        await Runner.run(team_of(desk=asks), "go", session=Session("s", store=store))
    assert await open_items(store) == []


async def test_an_agent_cannot_answer_inbox_items() -> None:
    store = MemoryStore()

    @function_tool(failure_error_function=None)
    async def cheat() -> str:
        """Cheat."""
        [item] = await open_items(store)
        await Inbox(store).answer(item.id, choice="yes", by="mira")
        return "yes"

    await submitted(store, team_of(desk=desk))
    rogue = Agent("rogue", model=ScriptedModel([call("cheat")]), tools=[cheat])
    with pytest.raises(InboxForbidden, match="'rogue'"):
        await Runner.run(rogue, "go", session=Session("r", store=store))

    async def code(ctx: CodeContext[Any]) -> str:
        [item] = await open_items(store)
        await Inbox(store).answer(item.id, choice="yes", by="mira")
        return "yes"

    with pytest.raises(InboxForbidden, match="'sly'"):
        await Runner.run(Agent("sly", run=code), "go", session=Session("q", store=store))
    [item] = await open_items(store)
    assert item.status == "open"


class Till:
    """A team whose tool needs a person's yes."""

    def __init__(self, *answers: Any, **confirmation: Any) -> None:
        self.paid: list[int] = []

        @function_tool(confirmation=Confirmation(**confirmation))
        async def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"{cents} paid"

        self.model = ScriptedModel([call("pay", cents=100), *answers])
        other = Agent("other", model=self.model)
        self.agent = Agent("till", model=self.model, tools=[pay], handoffs=[other])
        self.team = Team(self.agent)
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.config = RunConfig(approver="inbox", clock=self.clock)

    async def begin(self, priority: Priority = "normal") -> str:
        """Run until the person is asked; the item's id."""
        session = Session("s", store=self.store, priority=priority)
        await submit(self.team, "go", session=session, run_config=self.config)
        await self.go_on()
        [item] = await open_items(self.store)
        assert self.paid == []
        assert (item.kind, item.tool, item.arguments) == ("confirmation", "pay", '{"cents":100}')
        return item.id

    async def go_on(self) -> None:
        await work(self.store, self.team, self.config)

    @property
    def told(self) -> str:
        """The result of its call that the model got."""
        return str(self.model.calls[-1].input[-1]["output"])

    async def decided_as(self) -> tuple[str, str]:
        """How the question about the call ended, and by whom, as its event tells."""
        [event] = [e for e in await self.store.events("s") if e.type == "tool_confirmation"]
        details = event.details or {}
        return details["status"], details["by"]

    async def went_on_by(self) -> str:
        """By whom the question ended, as the audit tells of the session."""
        page = await audit_records(self.store, AuditQuery(session_id="s", type="inbox"))
        return str(page.records[0].actor)


async def test_a_tool_runs_after_its_approval_in_the_inbox() -> None:
    till = Till(say("done"))
    item = await till.begin()
    await Inbox(till.store).answer(item, choice="approve", by="mira", via="http")
    await till.go_on()
    assert till.paid == [100]
    assert await said(till.store) == "done"
    [event] = [e for e in await till.store.events("s") if e.type == "tool_confirmation"]
    assert (event.details or {})["by"] == "mira"


async def test_a_rejection_in_the_inbox_is_reported_to_the_model() -> None:
    till = Till(say("not then"))
    item = await till.begin()
    await Inbox(till.store).answer(item, choice="reject", by="mira", text="too dear")
    await till.go_on()
    assert till.paid == []
    assert "the person refused: too dear" in till.told


async def test_an_approval_expires_at_its_deadline_without_counting_as_rejected() -> None:
    till = Till(say("not then"), timeout_s=20)
    item = await till.begin()
    till.clock.advance(21)
    await run_timers(till.store)
    await till.go_on()
    assert till.paid == []
    assert "The tool was not run: this tool needs human approval, and no answer before" in till.told
    ended = await Inbox(till.store).get(item)
    assert (ended.status, ended.answer) == ("expired", None)
    assert await till.decided_as() == ("expired", "nobody")
    assert await till.went_on_by() == "system nobody"


async def test_an_approval_in_the_inbox_waits_for_ever_unless_it_has_a_deadline() -> None:
    till = Till(say("done"), timeout_s=None)
    item = await till.begin(priority="urgent")
    till.clock.advance(365 * 86_400)
    await run_timers(till.store)
    waiting = await Inbox(till.store).get(item)
    assert (waiting.status, waiting.deadline_us, waiting.priority) == ("open", None, 4)
    await Inbox(till.store).answer(item, choice="approve", by="mira")
    await till.go_on()
    assert till.paid == [100]
    assert await till.went_on_by() == "person mira"


async def test_a_withdrawn_approval_is_neither_refused_nor_expired() -> None:
    till = Till(say("not then"))
    item = await till.begin()
    await Inbox(till.store).cancel(item, by="mira", reason="paid by hand")
    await till.go_on()
    assert till.paid == []
    assert "the request for approval was withdrawn by mira: paid by hand" in till.told
    assert await till.decided_as() == ("cancelled", "mira")
    [event] = [e for e in await till.store.events("s") if e.type == "tool_call"]
    assert (event.details or {})["not_run"]


@pytest.mark.parametrize("how", ["message", "handoff"])
async def test_a_call_whose_approval_the_run_withdraws_is_reported_as_not_run(how: str) -> None:
    till = Till(say("as you like"))
    await till.begin()
    if how == "message":
        await Runner.run(till.agent, "leave it", session=Session("s", store=till.store))
        told_of = [e.details for e in await till.store.events("s") if e.type == "message"][-1] or {}
        [error] = told_of["unfinished"].values()
    else:
        await HandoffController(till.team, store=till.store).start("s", to="other")
        [closed] = [e for e in await till.store.events("s") if e.type == "tool_call"]
        error = closed.error
    assert error == "not run: the request for approval was withdrawn"
    told = str(till.model.calls[-1].input)
    assert "It had no effect" in told
    assert "may or may not have had an effect" not in told
    assert till.paid == []


async def test_edited_arguments_are_used_only_if_the_edit_is_confirmed() -> None:
    till = Till(say("done"))
    item = await till.begin()
    inbox = Inbox(till.store)
    with pytest.raises(InboxAnswerInvalid):
        await inbox.answer(item, choice="approve", by="mira", arguments='{"cents": 5}')
    await inbox.answer(
        item, choice="approve", by="mira", arguments='{"cents": 5}', confirm_edit=True
    )
    await till.go_on()
    assert till.paid == [5]
    assert "changed the arguments" in till.told


async def test_an_always_in_the_inbox_holds_for_the_session() -> None:
    till = Till(call("pay", cents=100), say("done"))
    item = await till.begin()
    await Inbox(till.store).answer(item, choice="approve", by="mira", always=True, scope="session")
    await till.go_on()
    assert till.paid == [100, 100]
    assert await open_items(till.store) == []


def handed() -> tuple[Team, MemoryStore]:
    model = ScriptedModel([transfer("person_support", reason="too hard"), say("thank you")])
    front = Agent("front", model=model)
    front.handoffs = [handoff(person("support"))]
    return Team(front), MemoryStore()


async def test_a_handoff_to_people_is_answered_in_the_inbox() -> None:
    team, store = handed()
    session = Session("s", store=store)
    result = await Runner.run(team, "help me", session=session)
    assert result.outcome == Waiting("person:support")
    [item] = await open_items(store)
    assert (item.kind, item.role, item.from_agent) == ("handoff", "support", "front")
    assert (item.subject, item.body) == ("too hard", "help me")
    await Inbox(store).answer(item.id, choice="answer", text="We replace it.", by="mira")
    result = await Runner.wait(team, session)
    assert result.final_output == "We replace it."
    [said_by] = [e.details for e in result.events if e.details and "by" in e.details and e.items]
    assert said_by["by"]["name"] == "mira"


async def test_a_person_gives_a_conversation_back_from_the_inbox() -> None:
    team, store = handed()
    session = Session("s", store=store)
    await Runner.run(team, "help me", session=session)
    [item] = await open_items(store)
    await Inbox(store).answer(item.id, choice="give back", text="tell them yes", by="mira")
    result = await Runner.wait(team, session)
    assert (result.final_output, result.last_agent.name) == ("thank you", "front")


async def test_answering_through_the_controller_closes_the_item_and_only_once() -> None:
    team, store = handed()
    await Runner.run(team, "help me", session=Session("s", store=store))
    [item] = await open_items(store)
    controller = HandoffController(team, store)
    result = await controller.answer("s", "We replace it.", by="mira")
    assert result.final_output == "We replace it."
    done = await Inbox(store).get(item.id)
    assert (done.status, done.closed_by) == ("answered", "mira")
    with pytest.raises(InboxItemClosed, match="mira"):
        await Inbox(store).answer(item.id, choice="answer", text="No.", by="ken")


async def test_a_message_to_another_agent_cancels_the_inbox_item_of_the_conversation() -> None:
    team, store = handed()
    session = Session("s", store=store)
    await Runner.run(team, "help me", session=session)
    await Runner.run(team, "never mind", session=session, to="front")
    items = (await Inbox(store).list(InboxQuery(status="cancelled"))).items
    assert [item.status for item in items] == ["cancelled"]


async def test_a_failed_return_to_the_agent_posts_a_new_inbox_item() -> None:
    team, store = handed()
    session = Session("s", store=store)
    await Runner.run(team, "help me", session=session)
    [first] = await open_items(store)
    team["front"].available = False
    await Inbox(store).answer(first.id, choice="give back", text="tell them yes", by="mira")
    result = await Runner.resume(team, session)
    assert result.outcome == Waiting("person:support")
    [second] = await open_items(store)
    assert (second.kind, second.id != first.id) == ("handoff", True)
    await Inbox(store).answer(second.id, choice="answer", text="Then I do it.", by="mira")
    assert (await Runner.wait(team, session)).final_output == "Then I do it."


async def test_after_a_crash_a_repeated_answer_keeps_the_first_text() -> None:
    team, store = handed()
    await Runner.run(team, "help me", session=Session("s", store=store))
    [item] = await open_items(store)
    await Inbox(store).answer(item.id, choice="answer", text="We replace it.", by="mira")
    controller = HandoffController(team, store)
    with pytest.raises(InboxItemClosed, match="mira"):
        await controller.answer("s", "No.", by="ken")
    result = await controller.answer("s", "We replace it!", by="mira")
    assert result.final_output == "We replace it."
