"""Handoffs that happen without the model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffTrigger
from ekiden.core.profile import Capability
from ekiden.handoff import handoff
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, hang, say, transfer
from ekiden.tools import function_tool
from tests.support.cases import each_case


def when(expression: str, **more: Any) -> HandoffTrigger:
    return HandoffTrigger(type="condition", expression=expression, **more)


def pair(
    model: ScriptedModel, trigger: HandoffTrigger, *, tools: list[Any] | None = None, **terms: Any
) -> tuple[Agent[Any], Agent[Any]]:
    b = Agent("b", model=model)
    a = Agent("a", model=model, tools=tools or [], handoffs=[handoff(b, trigger=trigger, **terms)])
    return a, b


async def one_record(a: Agent[Any], **options: Any) -> tuple[Any, HandoffRecord]:
    result = await Runner.run(a, "hi", **options)
    [record] = records_of(result.events)
    return result, record


@function_tool
def rate(ctx: RunContextWrapper[Any], confidence: float) -> str:
    """Say how sure the agent is."""
    ctx.set("confidence", confidence)
    return "noted"


@function_tool
def shout(ctx: RunContextWrapper[Any]) -> str:
    """Tell everybody."""
    ctx.publish("shift.over", {"at": "18:00"})
    return "told"


@function_tool
def break_down() -> str:
    """Fail."""
    raise ValueError("the machine is broken")


async def test_a_condition_trigger_fires_after_the_step_that_met_it() -> None:
    model = ScriptedModel([call("rate", confidence=0.3), say("b is sure")])
    a, b = pair(model, when("confidence < 0.5"), tools=[rate])
    result, record = await one_record(a)
    assert result.last_agent is b
    assert (record.by.kind, record.status) == ("trigger", "completed")
    assert record.trigger is not None
    assert record.trigger["type"] == "condition"
    assert record.trigger["evaluation"]["value"] is True
    assert "confidence < 0.5" in record.reason


async def test_a_triggered_handoff_is_not_offered_to_the_model() -> None:
    model = ScriptedModel([say("a alone")])
    a, _ = pair(model, when("confidence < 0.5"))
    await Runner.run(a, "hi")
    assert model.calls[0].tools == []


async def test_a_handoff_can_be_both_triggered_and_offered() -> None:
    model = ScriptedModel([transfer("b"), say("from b")])
    a, b = pair(model, when("confidence < 0.5"), when="manual")
    assert (await Runner.run(a, "hi")).last_agent is b


async def test_a_condition_with_a_missing_field_does_not_fire_and_is_recorded() -> None:
    model = ScriptedModel([say("a alone")])
    a, _ = pair(model, when("user.tier == 'gold'"))
    result = await Runner.run(a, "hi")
    assert result.last_agent is a
    [note] = [e for e in result.events if e.details and e.details.get("fired") is False]
    assert note.details is not None
    assert "user.tier" in str(note.details["evaluation"])


async def test_a_condition_met_at_the_start_hands_off_before_the_first_answer() -> None:
    model = ScriptedModel([say("b here")])
    a, b = pair(model, when("contains(text, 'refund')"))
    result = await Runner.run(a, "a refund, please")
    assert result.last_agent is b
    assert [recorded.agent for recorded in model.calls] == ["b"]


async def test_an_answer_that_meets_a_condition_hands_off() -> None:
    async def unsure(ctx: CodeContext[Any]) -> str:
        ctx.set("confidence", 0.1)
        return "perhaps 7"

    model = ScriptedModel([say("it is 8")])
    b = Agent("b", model=model)
    a = Agent("a", run=unsure, handoffs=[handoff(b, trigger=when("confidence < 0.5"))])
    result = await Runner.run(a, "how many?")
    assert result.final_output == "it is 8"
    assert model.calls[0].input[0]["content"] == "how many?"
    assert "perhaps 7" in str(list(model.calls[0].input))


async def test_an_event_trigger_fires_on_its_published_event() -> None:
    model = ScriptedModel([call("shout"), say("the night shift")])
    a, b = pair(model, HandoffTrigger(type="event", event="shift.over"), tools=[shout])
    result, record = await one_record(a)
    assert result.last_agent is b
    assert record.trigger == {"type": "event", "event": "shift.over"}
    published = [e.details for e in result.events if e.details and "published" in e.details]
    assert published == [{"published": "shift.over", "data": {"at": "18:00"}}]


async def test_an_event_trigger_ignores_other_events() -> None:
    model = ScriptedModel([call("shout"), say("still a")])
    a, _ = pair(model, HandoffTrigger(type="event", event="fire"), tools=[shout])
    assert (await Runner.run(a, "hi")).last_agent is a


async def test_an_explicit_trigger_fires_only_on_a_call_of_the_model() -> None:
    model = ScriptedModel([transfer("b"), say("from b")])
    a, b = pair(model, HandoffTrigger(type="explicit"))
    result, record = await one_record(a)
    assert result.last_agent is b
    assert record.by.kind == "model"


async def test_a_timeout_fires_although_the_agent_hangs() -> None:
    model = ScriptedModel(respond=lambda r: hang() if r.agent == "a" else say("b is quick"))
    a, b = pair(model, HandoffTrigger(type="timeout", seconds=0.05))
    result, record = await one_record(a)
    assert result.last_agent is b
    assert record.trigger is not None
    assert record.trigger["type"] == "timeout"
    assert record.trigger["seconds"] >= 0.05


async def test_a_timeout_cancels_the_tool_that_hangs() -> None:
    ended: list[str] = []

    @function_tool
    async def dig() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cancelled")
        return "never"

    model = ScriptedModel(respond=lambda r: call("dig") if r.agent == "a" else say("b is quick"))
    a, b = pair(model, HandoffTrigger(type="timeout", seconds=0.05), tools=[dig])
    result = await Runner.run(a, "hi", session=Session(store=MemoryStore()))
    assert result.last_agent is b
    assert ended == ["cancelled"]


async def test_an_error_of_the_agent_hands_over_instead_of_ending_the_run() -> None:
    model = ScriptedModel([fail(ConnectionError("no line")), say("b takes over")])
    a, _ = pair(model, HandoffTrigger(type="error"))
    result, record = await one_record(a)
    assert result.final_output == "b takes over"
    assert record.trigger == {"type": "error", "error": "ConnectionError"}


async def test_an_error_trigger_ignores_errors_it_does_not_name() -> None:
    model = ScriptedModel([fail(KeyError("x"))])
    a, _ = pair(model, HandoffTrigger(type="error", errors=("ConnectionError",)))
    with pytest.raises(KeyError):
        await Runner.run(a, "hi")


@pytest.mark.parametrize("name", ["ConnectionError", "OSError"])
async def test_an_error_trigger_matches_the_error_class_and_its_bases(name: str) -> None:
    model = ScriptedModel([fail(ConnectionError("no line")), say("b takes over")])
    a, b = pair(model, HandoffTrigger(type="error", errors=(name,)))
    assert (await Runner.run(a, "hi")).last_agent is b


async def test_an_error_trigger_fires_on_a_tool_error() -> None:
    model = ScriptedModel([call("break_down"), say("b takes over")])
    a, b = pair(model, HandoffTrigger(type="error"), tools=[break_down])
    result, record = await one_record(a)
    assert result.last_agent is b
    assert record.trigger is not None
    assert "the machine is broken" in record.trigger["error"]


async def test_a_capability_trigger_fires_on_a_missing_capability() -> None:
    model = ScriptedModel([say("b knows")])
    a, b = pair(model, HandoffTrigger(type="capability", capabilities=("python", "sql")))
    a.capabilities = (Capability(name="sql"),)
    result, record = await one_record(a)
    assert result.last_agent is b
    assert record.trigger == {"type": "capability", "missing": ["python"]}


async def test_a_capability_trigger_ignores_an_agent_that_has_the_capability() -> None:
    model = ScriptedModel([say("a knows")])
    a, _ = pair(model, HandoffTrigger(type="capability", capabilities=("sql",)))
    a.capabilities = (Capability(name="SQL"),)
    assert (await Runner.run(a, "hi")).last_agent is a


async def test_of_several_triggers_the_highest_priority_fires_then_the_first() -> None:
    model = ScriptedModel(respond=lambda request: say(f"{request.agent} here"))
    low, first, second = (Agent(name, model=model) for name in ("low", "first", "second"))
    a = Agent(
        "a",
        model=model,
        handoffs=[
            handoff(low, trigger=when("true", priority=1)),
            handoff(first, trigger=when("true", priority=5)),
            handoff(second, trigger=when("true", priority=5)),
        ],
    )
    result, record = await one_record(a)
    assert result.last_agent is first
    assert record.trigger is not None
    assert record.trigger["also"] == ["second", "low"]


async def test_the_next_trigger_fires_when_the_first_handoff_is_refused() -> None:
    model = ScriptedModel(respond=lambda request: say(f"{request.agent} here"))
    away, there = Agent("away", available=False), Agent("there", model=model)
    a = Agent(
        "a",
        model=model,
        handoffs=[handoff(away, trigger=when("true")), handoff(there, trigger=when("true"))],
    )
    result = await Runner.run(a, "hi")
    assert result.last_agent is there
    codes = [record.code for record in records_of(result.events)]
    assert codes == ["AGENT_UNAVAILABLE", None]


async def test_a_trigger_whose_handoff_was_refused_fires_once() -> None:
    model = ScriptedModel([call("shout"), call("shout"), say("a alone")])
    a, b = pair(model, when("true"), tools=[shout])
    b.available = False
    result, record = await one_record(a)
    assert result.final_output == "a alone"
    assert record.code == "AGENT_UNAVAILABLE"


async def test_triggers_that_hand_off_back_and_forth_are_stopped() -> None:
    model = ScriptedModel(respond=lambda request: say(f"{request.agent} here"))
    a, b = Agent("a", model=model), Agent("b", model=model)
    a.handoffs = [handoff(b, trigger=when("true"), allow_return=True)]
    b.handoffs = [handoff(a, trigger=when("true"), allow_return=True)]
    result = await Runner.run(a, "hi", run_config=RunConfig(limits=Limits(depth=3, turns=None)))
    assert len(result.handoffs) <= 3
    assert records_of(result.events)[-1].code in ("MAX_DEPTH_EXCEEDED", "CIRCULAR_HANDOFF")


async def test_a_failing_target_of_a_trigger_returns_control() -> None:
    model = ScriptedModel(
        respond=lambda r: fail(ValueError("dead")) if r.agent == "b" else say("a again")
    )
    a, _ = pair(model, when("true"))
    session = Session(store=MemoryStore())
    result = await Runner.run(a, "hi", session=session)
    assert result.final_output == "a again"
    [record] = records_of(result.events)
    assert record.status == "rolled_back"
    assert [item.get("role") for item in await session.get_items()] == ["user", "assistant"]
    told = text_of(model.calls[-1].input[-1])
    assert "The handoff to b was made without a call of yours and rolled back" in told
    assert "dead" in told


@each_case(
    ("fields", "problem"),
    [
        ({"type": "moon"}, "type must be one of"),
        ({"type": "condition"}, "needs `expression`"),
        ({"type": "event"}, "needs `event`"),
        ({"type": "timeout"}, "needs `seconds`"),
        ({"type": "capability"}, "needs `capabilities`"),
        ({"type": "timeout", "seconds": -1}, "above 0"),
        ({"type": "timeout", "seconds": float("nan")}, "above 0"),
        ({"type": "event", "event": "x", "seconds": 3}, "belongs to triggers of type 'timeout'"),
    ],
)
def test_an_invalid_trigger_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        HandoffTrigger(**fields)


def test_a_bad_condition_is_found_when_the_team_is_made() -> None:
    with pytest.raises(UserError, match="=="):
        handoff(Agent("b"), trigger=when("plan = 'pro'"))


@pytest.mark.parametrize("name", ["", "x" * 201, None])
async def test_an_event_needs_a_name(name: Any) -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        ctx.publish(name)
        return "never"

    with pytest.raises(UserError, match="1 to 200 characters"):
        await Runner.run(Agent("a", run=code), "hi")
