"""What the machine of `test_handoff_machine` found, each as the smallest story that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import UserError
from ekiden.core.handoffs import Decline, HandoffRequest, HandoffTrigger
from ekiden.core.profile import Budget
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.handoff import handoff, person
from ekiden.handoff.records import records_of
from ekiden.runtime import HandoffController, Limits, RunConfig, Runner
from ekiden.sessions import Session, variables_at
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.handoff_machine.stores import Cut, CuttingMemory


@function_tool
def look() -> str:
    return "seen"


@function_tool
def slip() -> str:
    raise ValueError("slipped")


AWAY = fail(ConnectionError("away"))
BEFORE, AFTER = 1, 2


def cut_at(store: CuttingMemory, commit: int, when: int) -> None:
    """Break off at one of the next commits, before or after it is stored."""
    store.cut(2 * (commit - 1) + when)


@pytest.fixture
def store() -> CuttingMemory:
    return CuttingMemory()


@pytest.fixture
def session(store: CuttingMemory) -> Session:
    return Session("s", store=store)


async def codes(session: Session) -> list[str | None]:
    """How the session's handoffs ended: their codes, or statuses where there is none."""
    return [record.code or record.status for record in records_of(await session.events())]


async def test_a_session_continues_after_a_handoff_that_was_not_approved(
    store: CuttingMemory, session: Session
) -> None:
    model = ScriptedModel([say("one"), say("two")])
    a = Agent("a", model=model, handoffs=[handoff(Agent("b"), confirm=True)])
    await Runner.run(a, "hi", session=session)
    await HandoffController(a, store).start("s", to="b")
    assert await codes(session) == ["NOT_APPROVED"]
    assert (await session.row()).outcome == "done"
    assert (await Runner.run(a, "again", session=session)).final_output == "two"


async def test_the_context_of_a_declined_return_counts_as_new() -> None:
    answers: list[bool | Decline] = [Decline("busy"), True]

    def accepts(ctx: RunContextWrapper[Any], request: HandoffRequest) -> bool | Decline:
        return answers.pop(0)

    back = transfer("a", context="it is the printer")
    model = ScriptedModel([transfer("b"), back, back, say("a again")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b], accepts=accepts)
    b.handoffs = [handoff(a, allow_return=True)]
    result = await Runner.run(a, "hi")
    assert [record.code for record in records_of(result.events)] == [None, "DECLINED", None]
    assert result.final_output == "a again"


async def test_a_rolled_back_change_does_not_allow_a_return() -> None:
    steps = [transfer("b"), transfer("c"), call("look"), AWAY, transfer("a"), say("b answers")]
    model = ScriptedModel(steps)
    c = Agent("c", model=model, tools=[look])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    b.handoffs = [handoff(c, completes="result"), handoff(a, allow_return=True)]
    result = await Runner.run(a, "hi")
    assert result.last_agent is b
    assert [record.code for record in records_of(result.events)] == [
        None, "TARGET_FAILED", "CIRCULAR_HANDOFF",
    ]  # fmt: skip


async def test_a_message_to_another_agent_cancels_an_unconfirmed_handoff(
    store: CuttingMemory, session: Session
) -> None:
    model = ScriptedModel([transfer("b"), say("from c")])
    b, c = Agent("b", model=model), Agent("c", model=model)
    team = Team(Agent("a", model=model, handoffs=[b, c]))
    cut_at(store, 2, AFTER)
    with pytest.raises(Cut):
        await Runner.run(team, "hi", session=session)
    assert await codes(session) == ["transferring"]
    result = await Runner.run(team, "you, please", session=session, to="c")
    assert result.final_output == "from c"
    assert await codes(session) == ["CANCELLED"]


async def test_a_run_that_started_with_a_rolled_back_handoff_is_finished(
    store: CuttingMemory, session: Session
) -> None:
    model = ScriptedModel([say("one"), say("from c")])
    b, c = Agent("b", model=model), Agent("c", model=model)
    team = Team(Agent("a", model=model, handoffs=[b, c]))
    await Runner.run(team, "hi", session=session)
    await HandoffController(team, store).start("s", to="b", run=False)
    cut_at(store, 2, BEFORE)
    with pytest.raises(Cut):
        await Runner.run(team, "you, please", session=session, to="c")
    row = await session.row()
    assert (row.agent, row.status, row.outcome) == ("a", "idle", "failed")
    with pytest.raises(UserError, match="nothing to resume"):
        await Runner.resume(team, session)
    result = await Runner.run(team, "you, please", session=session, to="c")
    assert result.final_output == "from c"


async def test_a_models_call_is_approved_once_despite_a_handoff_request_in_between(
    store: CuttingMemory, session: Session
) -> None:
    asked: list[str] = []

    class Anna:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            asked.append(request.tool)
            return Approval(approved=True, by="anna")

    model = ScriptedModel([transfer("b"), say("from b")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[handoff(b, confirm=True)])
    config = RunConfig(approver=Anna())
    cut_at(store, 3, AFTER)
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session, run_config=config)
    await HandoffController(a, store, run_config=config).start("s", to="nobody")
    result = await Runner.resume(a, session, run_config=config)
    assert result.final_output == "from b"
    assert asked == ["transfer_to_b"]


async def test_outputs_that_close_calls_are_removed_with_their_calls(
    store: CuttingMemory, session: Session
) -> None:
    model = ScriptedModel([transfer("b"), call("look"), AWAY, say("a again")])
    b = Agent("b", model=model, tools=[look])
    a = Agent("a", model=model, handoffs=[handoff(b, completes="result")])
    cut_at(store, 4, BEFORE)
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session)
    result = await Runner.run(a, "are you there?", session=session)
    assert result.final_output == "a again"
    kinds = [item.get("type") or item["role"] for item in model.calls[-1].input]
    assert kinds == ["user", "function_call", "user", "function_call_output"]


async def test_a_step_that_was_not_stored_leaves_no_compensation(
    store: CuttingMemory, session: Session
) -> None:
    @function_tool
    async def note(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("noted", True)
        return "noted"

    @function_tool
    async def book(ctx: RunContextWrapper[Any]) -> str:
        await ctx.on_rollback(look_away, key="booking")
        return "booked"

    model = ScriptedModel([transfer("b"), [call("note"), call("book")], AWAY, say("a again")])
    b = Agent("b", model=model, tools=[note, book])
    a = Agent("a", model=model, handoffs=[handoff(b, completes="result")])
    cut_at(store, 4, BEFORE)
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session)
    result = await Runner.resume(a, session)
    assert result.final_output == "a again"
    assert (await session.row()).variables == {}


def look_away() -> None:
    """Nothing has to be undone."""


async def test_the_maximum_depth_is_checked_before_the_best_match_is_searched() -> None:
    model = ScriptedModel([call("transfer_to_best_at_python"), say("alone")])
    a = Agent("a", model=model, handoffs=[handoff("*", capabilities=["python"])])
    result = await Runner.run(a, "hi", run_config=RunConfig(limits=Limits(depth=0)))
    [record] = records_of(result.events)
    assert record.code == "MAX_DEPTH_EXCEEDED"


async def test_a_run_begun_by_a_program_can_be_resumed_by_any_process(
    store: CuttingMemory, session: Session
) -> None:
    model = ScriptedModel([say("one"), say("from b")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    await Runner.run(a, "hi", session=session)
    cut_at(store, 1, AFTER)
    with pytest.raises(Cut):
        await HandoffController(a, store).start("s", to="b")
    row = await session.row()
    assert (row.agent, row.status, row.outcome) == ("b", "ready", None)
    assert (await Runner.resume(a, session)).final_output == "from b"


@pytest.mark.parametrize(("commit", "holder"), [(1, "person:desk"), (2, "a")])
async def test_a_conversation_returned_by_a_person_is_ready_to_resume(
    store: CuttingMemory, session: Session, commit: int, holder: str
) -> None:
    model = ScriptedModel([transfer("person:desk"), say("thanks")])
    a = Agent("a", model=model, handoffs=[person("desk")])
    await Runner.run(a, "hi", session=session)
    assert (await session.row()).status == "waiting"
    cut_at(store, commit, AFTER)
    with pytest.raises(Cut):
        await HandoffController(a, store).answer("s", "It is paid.", by="anna", give_back=True)
    row = await session.row()
    assert (row.agent, row.status, row.outcome) == (holder, "ready", None)
    assert (await Runner.resume(a, session)).final_output == "thanks"


async def test_an_exceeded_budget_rolls_back_the_handoff_that_set_it() -> None:
    model = ScriptedModel(
        [transfer("b"), transfer("c"), call("look"), say("a ends it")],
        usage=Usage(requests=1, total_tokens=10),
    )
    c = Agent("c", model=model, tools=[look])
    b = Agent("b", model=model, handoffs=[handoff(c, completes="result")])
    a = Agent("a", model=model)
    a.handoffs = [handoff(b, completes="result", budget=Budget(tokens=15))]
    result = await Runner.run(a, "hi")
    assert result.final_output == "a ends it"
    assert [record.code for record in records_of(result.events)] == ["BUDGET_EXCEEDED"] * 2


def with_trigger(model: ScriptedModel, *targets: Agent[Any]) -> Agent[Any]:
    on_error = HandoffTrigger(type="error", errors=("ValueError",))
    edges = [handoff(target, trigger=on_error) for target in targets]
    return Agent("a", model=model, tools=[slip], handoffs=edges)


async def test_an_error_trigger_fires_after_a_crash(store: CuttingMemory, session: Session) -> None:
    model = ScriptedModel([call("slip"), say("from b")])
    a = with_trigger(model, Agent("b", model=model))
    cut_at(store, 3, AFTER)
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session)
    assert await codes(session) == []
    result = await Runner.resume(a, session)
    assert (result.last_agent.name, result.final_output) == ("b", "from b")


async def test_the_next_trigger_fires_after_the_first_handoff_is_rolled_back() -> None:
    model = ScriptedModel([call("slip"), AWAY, say("from c")])
    a = with_trigger(model, Agent("b", model=model), Agent("c", model=model))
    result = await Runner.run(a, "hi")
    assert result.final_output == "from c"
    assert [record.status for record in records_of(result.events)] == ["rolled_back", "completed"]


async def test_a_trigger_record_omits_sensitive_data() -> None:
    model = ScriptedModel([call("slip"), say("from b")])
    a = with_trigger(model, Agent("b", model=model))
    config = RunConfig(trace_include_sensitive_data=False)
    result = await Runner.run(a, "hi", run_config=config)
    [record] = records_of(result.events)
    assert record.trigger is not None
    assert record.trigger["type"] == "error"
    assert "slipped" not in str(record.trigger)


async def test_stored_events_keep_their_variables_after_a_commit_breaks_off(
    store: CuttingMemory, session: Session
) -> None:
    @function_tool
    def count(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("n", 1)
        return "1"

    a = Agent("a", model=ScriptedModel([call("count")]), tools=[count])
    cut_at(store, 3, AFTER)
    with pytest.raises(Cut):
        await Runner.run(a, "go", session=session)
    assert (await session.row()).variables == {"n": 1}
    events = await session.events()
    assert variables_at(events, len(events)) == {"n": 1}
