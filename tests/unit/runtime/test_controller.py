"""The handoff controller: who may hand to whom, the two phases, and what is on record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.handoffs import Decline, HandoffRequest
from ekiden.core.profile import Capability
from ekiden.handoff import handoff
from ekiden.handoff.records import records_of
from ekiden.handoff.requests import MOVES, IllegalMove, Lifecycle, is_legal
from ekiden.runtime import Limits, RunConfig, Runner, RunResult
from ekiden.sessions import Session
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool


def handoffs_of(result: RunResult) -> list[dict[str, Any]]:
    return [event.details or {} for event in result.events if event.type == "handoff"]


def moves_of(events: Sequence[Event]) -> list[list[str]]:
    return [[move.status for move in record.moves] for record in records_of(events)]


async def refused(a: Agent[Any], model: ScriptedModel, **options: Any) -> tuple[str, str]:
    """Run `a`, whose first transfer is refused: the recorded code, and the model's result."""
    session = Session(store=MemoryStore())
    result = await Runner.run(a, "hi", session=session, **options)
    assert result.last_agent is a
    assert (await session.row()).agent == a.name
    assert result.chain == ["user", a.name]
    [record] = records_of(result.events)
    assert [move.status for move in record.moves] == ["initiated", "validating", "failed"]
    told = model.calls[1].input[-1]["output"]
    assert record.error is not None
    assert record.error in told
    assert record.code is not None
    return record.code, told


async def test_a_handoff_passes_its_four_statuses_and_each_is_recorded() -> None:
    model = ScriptedModel([transfer("b"), say("from b")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    result = await Runner.run(a, "hi")
    assert moves_of(result.events) == [["initiated", "validating", "transferring", "completed"]]
    first, second = handoffs_of(result)
    assert (first["status"], second["status"]) == ("transferring", "completed")
    assert first["id"] == second["id"] == result.handoffs[0]


async def test_a_handoff_completes_with_the_targets_first_answer() -> None:
    model = ScriptedModel([transfer("b"), call("look"), say("from b")])

    @function_tool
    def look() -> str:
        return "seen"

    b = Agent("b", model=model, tools=[look])
    a = Agent("a", model=model, handoffs=[b])
    result = await Runner.run(a, "hi")
    kinds = [event.type for event in result.events]
    assert kinds.index("tool_call") > len(kinds) - 1 - kinds[::-1].index("handoff")


def test_a_handoff_status_moves_only_along_the_lifecycle_table() -> None:
    for before, following in MOVES.items():
        for status in MOVES:
            life = Lifecycle(before)
            if status is None:
                continue
            if status in following:
                life.move(status)
                assert life.status == status
            else:
                with pytest.raises(IllegalMove):
                    life.move(status)
                assert life.status == before
    assert is_legal(["initiated", "validating", "failed"])
    assert not is_legal(["initiated", "transferring"])
    assert not is_legal(["validating"])


async def test_a_handoff_to_an_unavailable_agent_is_refused() -> None:
    model = ScriptedModel([transfer("b"), say("alone")])
    a = Agent("a", model=model, handoffs=[Agent("b", available=False)])
    code, told = await refused(a, model)
    assert code == "AGENT_UNAVAILABLE"
    assert "try again later" in told


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_availability_function_is_called_for_each_handoff(is_async: bool) -> None:
    answers = [False, True]

    def is_open(ctx: RunContextWrapper[Any], agent: Any) -> bool:
        assert agent.name == "b"
        return answers.pop(0)

    async def is_open_soon(ctx: RunContextWrapper[Any], agent: Any) -> bool:
        return is_open(ctx, agent)

    model = ScriptedModel([transfer("b"), transfer("b"), say("from b")])
    b = Agent("b", model=model, available=is_open_soon if is_async else is_open)
    a = Agent("a", model=model, handoffs=[b])
    result = await Runner.run(a, "hi")
    assert result.last_agent is b
    assert [record.status for record in records_of(result.events)] == ["failed", "completed"]


async def test_a_handoff_to_an_agent_at_its_session_limit_is_refused() -> None:
    store = MemoryStore()
    model = ScriptedModel([transfer("b"), say("alone"), transfer("b"), say("from b")])
    b = Agent("b", model=model, max_sessions=1)
    a = Agent("a", model=model, handoffs=[b])
    await store.create(NewSession(id="other", agent="b", status="ready"))
    result = await Runner.run(a, "hi", session=Session("s", store=store))
    [record] = records_of(result.events)
    assert record.code == "AGENT_UNAVAILABLE"
    await store.delete("other")
    again = await Runner.run(a, "again", session=Session("s", store=store))
    assert again.last_agent is b


async def test_more_sessions_than_a_page_count_towards_the_session_limit() -> None:
    store = MemoryStore()
    most = 1001
    model = ScriptedModel([transfer("b"), say("alone"), transfer("b"), say("from b")])
    b = Agent("b", model=model, max_sessions=most)
    a = Agent("a", model=model, handoffs=[b])
    for number in range(most):
        await store.create(NewSession(id=f"other{number}", agent="b", status="ready"))
    result = await Runner.run(a, "hi", session=Session("s", store=store))
    assert [record.code for record in records_of(result.events)] == ["AGENT_UNAVAILABLE"]
    await store.delete("other7")
    again = await Runner.run(a, "again", session=Session("s", store=store))
    assert again.last_agent is b


async def test_a_handoff_beyond_the_maximum_depth_is_refused_and_the_source_continues() -> None:
    model = ScriptedModel([transfer("b"), transfer("c"), say("I finish it")])
    c = Agent("c", model=model)
    b = Agent("b", model=model, handoffs=[c])
    a = Agent("a", model=model, handoffs=[b])
    result = await Runner.run(a, "hi", run_config=RunConfig(limits=Limits(depth=1)))
    assert result.last_agent is b
    assert result.final_output == "I finish it"
    assert [record.code for record in records_of(result.events)] == [None, "MAX_DEPTH_EXCEEDED"]


async def test_an_undeclared_return_ends_an_endless_ping_pong() -> None:
    model = ScriptedModel(respond=lambda request: ping_pong(request))
    a, b = Agent("a", model=model), Agent("b", model=model)
    a.handoffs, b.handoffs = [b], [a]
    result = await Runner.run(a, "hi")
    assert result.final_output == "stopped"
    assert [record.code for record in records_of(result.events)] == [None, "CIRCULAR_HANDOFF"]
    assert result.last_agent is b


async def test_the_maximum_depth_ends_an_endless_ping_pong_of_declared_returns() -> None:
    model = ScriptedModel(respond=lambda request: ping_pong(request))
    a, b = Agent("a", model=model), Agent("b", model=model)
    a.handoffs = [handoff(b, allow_return="always")]
    b.handoffs = [handoff(a, allow_return="always")]
    config = RunConfig(limits=Limits(depth=4, turns=None))
    result = await Runner.run(a, "hi", run_config=config)
    assert result.final_output == "stopped"
    assert len(result.handoffs) == 4
    assert records_of(result.events)[-1].code == "MAX_DEPTH_EXCEEDED"


def ping_pong(request: Any) -> Any:
    last = str(request.input[-1])
    if "Limits.depth" in last or "had the task already" in last:
        return say("stopped")
    return transfer("b" if request.agent == "a" else "a")


async def test_a_declared_return_is_refused_when_nothing_changed() -> None:
    model = ScriptedModel([transfer("b"), transfer("a"), say("then I answer")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    b.handoffs = [handoff(a, allow_return=True)]
    result = await Runner.run(a, "hi")
    assert result.last_agent is b
    assert "nothing changed" in model.calls[2].input[-1]["output"]


@pytest.mark.parametrize("how", ["tool", "variable", "text", "context"])
async def test_a_declared_return_happens_after_a_change(how: str) -> None:
    @function_tool
    def look(ctx: RunContextWrapper[Any]) -> str:
        if how == "variable":
            ctx.set("seen", True)
        return "seen"

    steps: dict[str, list[Any]] = {
        "tool": [call("look"), transfer("a")],
        "variable": [[call("look"), transfer("a")]],
        "text": [[say("I think it is the printer."), transfer("a")]],
        "context": [transfer("a", context="it is the printer")],
    }
    model = ScriptedModel([transfer("b"), *steps[how], say("a again")])
    b = Agent("b", model=model, tools=[look])
    a = Agent("a", model=model, handoffs=[b])
    b.handoffs = [handoff(a, allow_return=True)]
    result = await Runner.run(a, "hi")
    assert result.final_output == "a again"
    assert result.chain == ["user", "a", "b", "a"]


async def test_a_second_return_with_the_same_context_is_refused() -> None:
    back = transfer("a", context="it is the printer")
    model = ScriptedModel([transfer("b"), back, transfer("b"), back, say("b answers")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[handoff(b, allow_return="always")])
    b.handoffs = [handoff(a, allow_return=True)]
    result = await Runner.run(a, "hi")
    assert result.last_agent is b
    codes = [record.code for record in records_of(result.events)]
    assert codes == [None, None, None, "CIRCULAR_HANDOFF"]


async def test_a_target_without_the_capability_is_refused() -> None:
    model = ScriptedModel([transfer("b"), say("alone")])
    b = Agent("b", capabilities=(Capability(name="java"),))
    a = Agent("a", model=model, handoffs=[handoff(b, capabilities=["python", "java"])])
    code, told = await refused(a, model)
    assert code == "CAPABILITY_MISSING"
    assert "lacks python" in told


async def test_the_best_agent_for_the_capabilities_gets_it() -> None:
    model = ScriptedModel([call("transfer_to_best_at_python"), say("from the expert")])
    novice = Agent(
        "novice", model=model, capabilities=(Capability(name="python", proficiency=0.3),)
    )
    expert = Agent("expert", model=model, capabilities=(Capability(name="python"),))
    away = Agent("away", available=False, capabilities=(Capability(name="python"),))
    a = Agent("a", model=model, handoffs=[handoff("*", capabilities=["python"])])
    from ekiden.core.agent import Team

    result = await Runner.run(Team(a, novice, expert, away), "hi")
    assert result.last_agent is expert
    assert handoffs_of(result)[0]["to"] == "expert"


async def test_a_missing_capability_is_reported_to_the_model() -> None:
    model = ScriptedModel([call("transfer_to_best_at_python"), say("alone")])
    a = Agent("a", model=model, handoffs=[handoff("*", capabilities=["python"])])
    code, told = await refused(a, model)
    assert code == "CAPABILITY_MISSING"
    assert "no other available agent" in told


def test_a_handoff_to_the_best_match_needs_capabilities() -> None:
    with pytest.raises(UserError, match="needs `capabilities`"):
        handoff("*")


async def test_accepts_receives_the_complete_handoff_request() -> None:
    seen: list[HandoffRequest] = []

    async def accepts(ctx: RunContextWrapper[Any], request: HandoffRequest) -> bool:
        seen.append(request)
        return True

    model = ScriptedModel(
        [call("note"), transfer("b", reason="a refund", summary="s"), say("from b")]
    )

    @function_tool
    def note(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("plan", "pro")
        return "noted"

    b = Agent("b", model=model, accepts=accepts)
    a = Agent("a", model=model, tools=[note], handoffs=[b])
    session = Session("s1", store=MemoryStore())
    result = await Runner.run(a, "hi", session=session)
    assert result.last_agent is b
    [request] = seen
    assert (request.id, request.source, request.target) == ("s1.h1", "a", "b")
    assert (request.reason, request.policy) == ("a refund", "graceful")
    assert request.context.task_state == {"plan": "pro"}
    assert request.context.conversation_history[0]["content"] == "hi"
    assert request.context.metadata["handoff_chain"] == ["user", "a"]
    assert request.context.metadata["correlation_id"] == "s1"


@pytest.mark.parametrize("answer", [False, Decline("closed on Sundays"), Decline()])
async def test_a_declined_handoff_never_calls_the_target_model(answer: Any) -> None:
    model = ScriptedModel([transfer("b"), say("alone")])
    b = Agent("b", model=model, accepts=lambda ctx, request: answer)
    a = Agent("a", model=model, handoffs=[b])
    code, told = await refused(a, model)
    assert code == "DECLINED"
    if isinstance(answer, Decline) and answer.reason:
        assert "closed on Sundays" in told
    assert not [call for call in model.calls if call.agent == "b"]


async def test_an_invalid_result_of_accepts_is_a_user_error() -> None:
    model = ScriptedModel([transfer("b")])
    b = Agent("b", model=model, accepts=lambda ctx, request: "perhaps")
    a = Agent("a", model=model, handoffs=[b])
    with pytest.raises(UserError, match="True, False or Decline"):
        await Runner.run(a, "hi")


async def test_an_error_in_accepts_leaves_control_with_the_source() -> None:
    def accepts(ctx: Any, request: Any) -> bool:
        raise ConnectionError("b is away")

    model = ScriptedModel([transfer("b"), say("alone")])
    a = Agent("a", model=model, handoffs=[Agent("b", accepts=accepts)])
    code, told = await refused(a, model)
    assert code == "SOURCE_FAILED"
    assert "b is away" in told


async def test_a_transfer_to_an_unknown_agent_is_reported_to_the_model() -> None:
    model = ScriptedModel([call("transfer_to_nobody"), say("alone")])
    a = Agent("a", model=model, handoffs=[Agent("b")])
    result = await Runner.run(a, "hi")
    assert result.last_agent is a
    assert "there is no tool called 'transfer_to_nobody'" in model.calls[1].input[-1]["output"]


async def test_a_failing_target_returns_control_with_the_reason() -> None:
    model = ScriptedModel([transfer("b"), fail(RuntimeError("no fuel")), say("then I do it")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    session = Session(store=MemoryStore())
    result = await Runner.run(a, "hi", session=session)
    assert result.last_agent is a
    [record] = records_of(result.events)
    assert (record.status, record.code) == ("rolled_back", "TARGET_FAILED")
    assert "no fuel" in model.calls[2].input[-1]["output"]
    assert record.result().rollback_performed
