"""What must not go wrong around a handoff: refusals that touch nothing, rollbacks that end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.core.handoffs import Decline, Handoff, HandoffTrigger
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.handoff import handoff, redact
from ekiden.handoff.records import records_of
from ekiden.runtime import (
    CodeContext,
    HandoffController,
    Limits,
    Rollback,
    RunConfig,
    Runner,
)
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions import Session
from ekiden.storage.base import Commit
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.findable import findable

QUICK = RunConfig(compensation_backoff_s=0)
done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def undo(rollback: Rollback) -> None:
    done.append(f"undo {rollback.key}")


class Cut(BaseException):
    """Ends a run as a crash would."""


class CuttingStore(MemoryStore):
    """Dies once, right after the commit that `is_it` describes."""

    def __init__(self, is_it: Any) -> None:
        super().__init__()
        self.is_it = is_it

    async def commit(self, claim: Any, commit: Commit) -> None:
        await super().commit(claim, commit)
        if self.is_it is not None and self.is_it(commit):
            self.is_it = None
            raise Cut


# Refused means untouched


async def test_variables_set_by_a_declining_accepts_are_discarded() -> None:
    def accepts(ctx: RunContextWrapper[Any], request: Any) -> Decline:
        ctx.set("seen", True)
        ctx.publish("looked")
        return Decline("no")

    model = ScriptedModel([transfer("b"), say("alone")])
    b = Agent("b", accepts=accepts)
    c = Agent("c", model=ScriptedModel([]))
    fires = handoff(c, trigger=HandoffTrigger(type="event", event="looked"))
    a = Agent("a", model=model, handoffs=[b, fires])
    session = Session(store=MemoryStore())
    result = await Runner.run(a, "hi", session=session)
    assert result.final_output == "alone"
    assert (await session.row()).variables == {}


async def test_a_callbacks_effects_are_rolled_back_when_the_handoff_is_refused_later() -> None:
    def reserve(ctx: RunContextWrapper[Any]) -> None:
        ctx.on_rollback(undo, key="reservation")
        ctx.set("reserved", True)

    def broken(data: Any) -> Any:
        raise RuntimeError("the filter is broken")

    model = ScriptedModel([transfer("b"), say("alone")])
    edge = handoff(Agent("b"), on_handoff=reserve, input_filter=broken)
    session = Session(store=MemoryStore())
    await Runner.run(Agent("a", model=model, handoffs=[edge]), "hi", session=session)
    assert done == ["undo reservation"]
    assert (await session.row()).variables == {}


async def test_a_failed_compensation_after_a_refused_handoff_is_reported_to_people() -> None:
    @findable
    def hopeless() -> None:
        raise ConnectionError("the bank is gone")

    def reserve(ctx: RunContextWrapper[Any]) -> None:
        ctx.on_rollback(hopeless, key="reservation")
        raise RuntimeError("second thoughts")

    model = ScriptedModel([transfer("b"), say("alone")])
    a = Agent("a", model=model, handoffs=[handoff(Agent("b"), on_handoff=reserve)])
    result = await Runner.run(a, "hi")
    [case] = [event.details for event in result.events if event.type == "inbox"]
    assert case is not None
    assert "the bank is gone" in case["not_compensated"][0]


async def test_a_callbacks_effects_are_rolled_back_with_the_handoff() -> None:
    def reserve(ctx: RunContextWrapper[Any]) -> None:
        ctx.on_rollback(undo, key="reservation")
        ctx.set("reserved", True)

    model = ScriptedModel([transfer("b"), fail(ValueError("dead")), say("alone")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[handoff(b, on_handoff=reserve)])
    session = Session(store=MemoryStore())
    await Runner.run(a, "hi", session=session, run_config=QUICK)
    assert done == ["undo reservation"]
    assert (await session.row()).variables == {}


async def test_a_handoff_beyond_the_maximum_depth_runs_no_callback() -> None:
    async def invoke(ctx: Any, arguments: str) -> Agent[Any]:
        done.append("invoked")
        return b

    b = Agent("b")
    edge = Handoff("transfer_to_b", "", {"type": "object", "properties": {}}, invoke, "b")
    model = ScriptedModel([transfer("b"), say("alone")])
    config = RunConfig(limits=Limits(depth=0))
    await Runner.run(Agent("a", model=model, handoffs=[edge]), "hi", run_config=config)
    assert done == []


# Rollbacks


async def test_after_a_rollback_the_targets_model_errors_do_not_count_for_the_source() -> None:
    b = Agent("b", model=ScriptedModel([call("no_such_tool")] * 3 + [fail(ValueError("dead"))]))
    source = ScriptedModel([transfer("b"), call("typo"), say("alone")])
    a = Agent("a", model=source, handoffs=[handoff(b, completes="result")])
    assert (await Runner.run(a, "hi")).final_output == "alone"


async def test_a_timeout_trigger_waits_for_the_targets_rollback() -> None:
    @findable
    async def slow_undo() -> None:
        done.append("begun")
        await asyncio.sleep(0.6)  # The trigger's time is over meanwhile
        done.append("undone")

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(slow_undo, key="k")
        raise RuntimeError("out of stock")

    c = Agent("c", model=ScriptedModel([]))
    late = handoff(c, trigger=HandoffTrigger(type="timeout", seconds=0.5))
    b = Agent("b", run=code, handoffs=[late])
    a = Agent("a", model=ScriptedModel([transfer("b"), say("alone")]), handoffs=[b])
    result = await Runner.run(a, "hi", run_config=QUICK)
    assert result.final_output == "alone"
    assert done == ["begun", "undone"]
    assert [record.status for record in records_of(result.events)] == ["rolled_back"]


async def test_an_open_handoff_stored_by_an_earlier_version_is_read() -> None:
    stored = {
        "r": 1, "t": 1, "p": "think", "f": 1, "ch": ["user", "a", "b"],
        "ph": ["s.h1", "a", "b", "call_1", 3, None, 0, None],
    }  # fmt: skip
    cursor = Cursor.from_json(stored)
    assert cursor.handoffs.pending is not None
    assert (cursor.handoffs.pending.source, cursor.handoffs.pending.target) == ("a", "b")
    again = Cursor.from_json(cursor.to_json())
    assert again == cursor


# Faults of the team


@pytest.mark.parametrize("kind", ["timeout", "error"])
async def test_an_invalid_accepts_of_a_triggered_handoff_fails_the_run(kind: Any) -> None:
    def respond(request: Any) -> Any:
        return fail(ValueError("dead"))

    async def hang(ctx: CodeContext[Any]) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    b = Agent("b", accepts=lambda ctx, request: None)
    trigger = HandoffTrigger(type=kind, seconds=0.02 if kind == "timeout" else None)
    edge = handoff(b, trigger=trigger)
    if kind == "timeout":
        a = Agent("a", run=hang, handoffs=[edge])
    else:
        a = Agent("a", model=ScriptedModel(respond=respond), handoffs=[edge])
    session = Session(store=MemoryStore())
    with pytest.raises(UserError, match="True, False or Decline"):
        await Runner.run(a, "hi", session=session)
    assert (await session.row()).outcome == "failed"


# People


class Editor:
    """Agrees, and changes the words."""

    async def approve(self, request: ConfirmationRequest) -> Approval:
        done.append("asked")
        return Approval(approved=True, by="ada", arguments='{"reason":"a refund"}')


async def test_the_target_sees_the_arguments_edited_at_the_approval() -> None:
    model = ScriptedModel([transfer("b", reason="SECRET 123"), say("from b")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[handoff(b, confirm=True)])
    result = await Runner.run(a, "hi", run_config=RunConfig(approver=Editor()))
    prompt = str(model.calls[1].system_instructions)
    assert "SECRET" not in prompt
    assert "a refund" in prompt
    assert records_of(result.events)[0].reason == "a refund"


async def test_an_approval_of_a_triggered_handoff_survives_a_crash() -> None:
    store = CuttingStore(lambda commit: any(e.type == "tool_confirmation" for e in commit.events))
    model = ScriptedModel(respond=lambda request: say(f"{request.agent} here"))
    b = Agent("b", model=model)
    edge = handoff(
        b, confirm=True, trigger=HandoffTrigger(type="condition", expression="turn == 0")
    )
    a = Agent("a", model=model, handoffs=[edge])
    session = Session("s", store=store)
    config = RunConfig(approver=Editor())
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session, run_config=config)
    result = await Runner.resume(a, session, run_config=config)
    assert result.last_agent is b
    assert done == ["asked"]


# Triggers after the answer


async def test_a_crash_between_triggers_does_not_repeat_the_answer() -> None:
    def is_refusal(commit: Commit) -> bool:
        return any((event.details or {}).get("status") == "failed" for event in commit.events)

    store = CuttingStore(is_refusal)
    model = ScriptedModel([say("the answer")])
    away = Agent("away", available=False)
    edge = handoff(away, trigger=HandoffTrigger(type="condition", expression="turn > 0"))
    a = Agent("a", model=model, handoffs=[edge])
    session = Session("s", store=store)
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session)
    result = await Runner.resume(a, session)
    assert result.final_output == "the answer"
    assert len(model.calls) == 1
    assert [item.get("role") for item in await session.get_items()] == ["user", "assistant"]


# Authority


async def test_a_disabled_handoff_is_disabled_for_triggers_and_programs() -> None:
    model = ScriptedModel(respond=lambda request: say(f"{request.agent} here"))
    b = Agent("b", model=model)
    trigger = HandoffTrigger(type="condition", expression="true")
    a = Agent("a", model=model, handoffs=[handoff(b, is_enabled=False, trigger=trigger)])
    store = MemoryStore()
    result = await Runner.run(a, "hi", session=Session("s", store=store))
    assert [record.code for record in records_of(result.events)] == ["PERMISSION_DENIED"]
    asked = await HandoffController(Team(a), store).start("s", to="b")
    assert asked.error is not None
    assert asked.error.code == "PERMISSION_DENIED"


async def test_a_tool_disabled_for_the_source_is_disabled_for_a_restricted_target() -> None:
    @function_tool(is_enabled=False)
    def danger() -> str:
        return "boom"

    @function_tool(name_override="danger")
    def same_name() -> str:
        return "boom"

    model = ScriptedModel([transfer("b"), say("from b")])
    b = Agent("b", model=model, tools=[same_name])
    a = Agent("a", model=model, tools=[danger], handoffs=[handoff(b, restrict_tools=True)])
    await Runner.run(a, "hi")
    assert model.calls[1].tools == []


async def test_no_handoff_policy_bypasses_a_condition() -> None:
    model = ScriptedModel(respond=lambda request: say(f"{request.agent} here"))
    edge = handoff(Agent("b", model=model), policy="conditional", condition="false")
    a = Agent("a", model=model, handoffs=[edge])
    store = MemoryStore()
    await Runner.run(a, "hi", session=Session("s", store=store))
    controller = HandoffController(Team(a), store)
    for policy in ("graceful", "immediate", None):
        result = await controller.start("s", to="b", policy=policy)  # type: ignore[arg-type]
        assert result.error is not None
        assert result.error.code == "CONDITIONS_NOT_MET"


async def test_a_handoff_to_the_best_match_takes_a_filter_but_no_callback() -> None:
    edge = handoff("*", capabilities=["x"], input_filter=redact("card"), include_context=False)
    assert edge.input_filter is not None
    assert not edge.include_context
    with pytest.raises(UserError, match="no `on_handoff`"):
        handoff("*", capabilities=["x"], on_handoff=lambda ctx: None)


# Data


async def test_values_of_a_condition_are_left_out_where_they_may_be_sensitive() -> None:
    model = ScriptedModel([say("fine")])
    trigger = HandoffTrigger(type="condition", expression="contains(text, 'refund') and false")
    a = Agent("a", model=model, handoffs=[handoff(Agent("b"), trigger=trigger)])
    config = RunConfig(trace_include_sensitive_data=False)
    result = await Runner.run(a, "refund to card 4111111111111111", run_config=config)
    told = [event.details for event in result.events if event.details]
    assert "41111111" not in str(told)
    assert any(each.get("fired") is False for each in told)


@pytest.mark.parametrize("name", ["ConnectionRefusedError", "ConnectionError", "OSError"])
async def test_an_error_trigger_matches_a_tools_error_class_and_its_bases(name: str) -> None:
    @function_tool
    def dial() -> str:
        raise ConnectionRefusedError("nobody home")

    model = ScriptedModel([call("dial"), say("b here")])
    b = Agent("b", model=model)
    trigger = HandoffTrigger(type="error", errors=(name,))
    a = Agent("a", model=model, tools=[dial], handoffs=[handoff(b, trigger=trigger)])
    assert (await Runner.run(a, "hi")).last_agent is b


async def test_a_payload_reaches_the_target() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        return f"order {ctx.received['payload']['order']}"

    store = MemoryStore()
    b = Agent("b", run=code)
    a = Agent("a", model=ScriptedModel([say("a here")]), handoffs=[b])
    session = Session("s", store=store)
    await Runner.run(a, "hi", session=session)
    await HandoffController(Team(a), store).start("s", to="b", payload={"order": 7})
    assert "order 7" in str((await session.get_items())[-1])
