"""Guardrails of tools in a run: what the model reads, what is recorded, and what can be resumed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import EkidenError, MaxTurnsExceeded, ToolError, UserError
from ekiden.core.events import Event
from ekiden.core.guardrails import (
    GuardrailError,
    GuardrailFailed,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from ekiden.core.profile import Confirmation
from ekiden.core.roles import Approval
from ekiden.core.runs import RunHooks
from ekiden.core.tools.guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    tool_input_guardrail,
    tool_output_guardrail,
)
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime import CodeContext, RunConfig, Runner, RunResult
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, hang, say
from ekiden.tools import function_tool

Output = ToolGuardrailFunctionOutput


@tool_input_guardrail
def small_sums(data: ToolInputGuardrailData) -> Output:
    if "9999" in data.context.tool_arguments:
        return Output.reject_content("at most 100", output_info={"cents": 9999})
    if "666" in data.context.tool_arguments:
        return Output.raise_exception("fraud")
    return Output.allow("small")


@tool_output_guardrail(name="no keys")
async def no_keys(data: ToolOutputGuardrailData) -> Output:
    if "sk-" in str(data.output):
        return Output.reject_content("[removed]")
    if "root" in str(data.output):
        return Output.raise_exception()
    return Output.allow()


def pay_tool(**options: Any) -> FunctionTool:
    def pay(cents: int = 1, note: str = "") -> str:
        return f"paid {cents} {note}".strip()

    return function_tool(
        pay, tool_input_guardrails=[small_sums], tool_output_guardrails=[no_keys], **options
    )


def desk(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel(steps), tools=[pay_tool(**options)])


def outputs(result: RunResult) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


def guardrail_events(events: list[Event]) -> list[dict[str, Any]]:
    """What the guardrail events tell, but for their place in the audit."""
    return [
        {name: value for name, value in (event.details or {}).items() if name != "hash"}
        for event in events
        if event.type == "guardrail"
    ]


async def test_an_allowed_call_records_its_guardrails_in_the_tool_call_event() -> None:
    result = await Runner.run(desk(call("pay"), say("done")), "pay")
    assert outputs(result) == ["paid 1"]
    assert guardrail_events(result.events) == []
    [details] = [event.details for event in result.events if event.type == "tool_call"]
    assert details == {
        "tool": "pay",
        "guardrails": [
            {
                "type": "tool_input",
                "guardrail": "small_sums",
                "result": "passed",
                "behavior": "allow",
                "info": "small",
            },
            {
                "type": "tool_output",
                "guardrail": "no keys",
                "result": "passed",
                "behavior": "allow",
            },
        ],
    }


async def test_a_rejected_call_is_reported_to_the_model_and_recorded() -> None:
    result = await Runner.run(desk(call("pay", "c1", cents=9999), say("too much")), "pay")
    assert result.final_output == "too much"
    assert outputs(result) == ["at most 100"]
    assert guardrail_events(result.events) == [
        {
            "tool": "pay",
            "call_id": "c1",
            "type": "tool_input",
            "guardrail": "small_sums",
            "result": "failed",
            "behavior": "reject_content",
            "message": "at most 100",
            "info": {"cents": 9999},
        }
    ]
    [called] = [event for event in result.events if event.type == "tool_call"]
    assert called.error == (
        "guardrail 'small_sums' rejected the call, which was not made: at most 100"
    )
    assert called.details == {"tool": "pay"}


async def test_a_rejected_output_is_not_stored() -> None:
    session = Session("s", store=MemoryStore())
    model = ScriptedModel([call("pay", note="x"), say("ok")])
    tool = pay_tool()

    async def leak(ctx: Any, arguments: str) -> str:
        return "the key is sk-1"

    tool.on_invoke_tool = leak
    result = await Runner.run(Agent("desk", model=model, tools=[tool]), "pay", session=session)
    assert outputs(result) == ["[removed]"]
    assert "sk-1" not in str([event.to_json() for event in await session.events()])
    assert "sk-1" not in str(model.calls[1].input)


async def test_guardrail_events_omit_sensitive_data_when_it_is_excluded() -> None:
    config = RunConfig(trace_include_sensitive_data=False)
    agent = desk([call("pay", cents=9999), call("pay")], say("ok"))
    result = await Runner.run(agent, "pay", run_config=config)
    [details] = guardrail_events(result.events)
    assert details["result"] == "failed"
    assert not {"message", "info"} & set(details)
    shown = [event.details for event in result.events if event.type == "tool_call"]
    assert "small" not in str(shown).replace("small_sums", "")
    rejected, allowed = result.tool_input_guardrail_results
    assert (rejected.output, allowed.output) == (Output.reject_content(""), Output.allow())


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tripwire_ends_the_run_with_the_items_before_it(streamed: bool) -> None:
    session = Session("s", store=MemoryStore())
    agent = desk(call("pay"), call("pay", "c2", cents=666))
    with pytest.raises(ToolInputGuardrailTripwireTriggered, match="'small_sums'") as caught:
        if streamed:
            async for _ in Runner.run_streamed(agent, "pay", session=session).events():
                pass
        else:
            await Runner.run(agent, "pay", session=session)
    error = caught.value
    assert error.guardrail is small_sums
    assert error.output.output_info == "fraud"
    data = error.run_data
    assert outputs(data) == ["paid 1"]
    [known] = data.tool_input_guardrail_results
    assert (known.guardrail, known.output) == (small_sums, Output.allow("small"))
    [known] = data.tool_output_guardrail_results
    assert (known.guardrail, known.output) == (no_keys, Output.allow())
    stored = await session.events()
    assert guardrail_events(stored) == [
        {
            "tool": "pay",
            "call_id": "c2",
            "type": "tool_input",
            "guardrail": "small_sums",
            "result": "failed",
            "behavior": "raise_exception",
            "info": "fraud",
        }
    ]
    assert stored[-1].details == {"outcome": "failed", "code": "guardrail.tool_input"}


async def test_an_output_tripwire_ends_the_run_after_the_tool_ran() -> None:
    agent = desk(call("pay", note="root"))
    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as caught:
        await Runner.run(agent, "pay")
    [details] = guardrail_events(caught.value.run_data.events)
    assert (details["type"], details["behavior"]) == ("tool_output", "raise_exception")
    assert "root" not in str(details)


async def test_a_crashing_tool_guardrail_ends_the_run_and_is_recorded() -> None:
    @tool_input_guardrail
    def broken(data: ToolInputGuardrailData) -> Output:
        raise KeyError("cents")

    made: list[int] = []
    tool = function_tool(lambda: made.append(1), name_override="act")
    tool.tool_input_guardrails = [broken]
    agent = Agent("desk", model=ScriptedModel([call("act", "c1")]), tools=[tool])
    with pytest.raises(GuardrailFailed, match="KeyError: 'cents'") as caught:
        await Runner.run(agent, "go")
    assert made == []
    assert guardrail_events(caught.value.run_data.events) == [
        {
            "tool": "act",
            "call_id": "c1",
            "type": "tool_input",
            "guardrail": "broken",
            "result": "failed",
            "behavior": "crashed",
        }
    ]


async def test_a_run_ended_by_a_tool_guardrail_resumes_at_the_guardrail() -> None:
    answers = [Output.raise_exception(), Output.raise_exception(), Output.allow()]

    @tool_input_guardrail
    def moody(data: ToolInputGuardrailData) -> Output:
        return answers.pop(0)

    tool = function_tool(lambda: "did it", name_override="act")
    tool.tool_input_guardrails = [moody]
    agent = Agent("desk", model=ScriptedModel([call("act"), say("done")]), tools=[tool])
    session = Session("s", store=MemoryStore())
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        await Runner.run(agent, "go", session=session)
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        await Runner.resume(agent, session)
    result = await Runner.resume(agent, session)
    assert result.final_output == "done"
    assert len(guardrail_events(await session.events())) == 2


async def test_guardrail_results_are_kept_when_a_limit_ends_the_run() -> None:
    agent = desk(call("pay", cents=9999), call("pay", note="sk-1"))
    result = await Runner.run(agent, "pay", max_turns=2)
    with pytest.raises(MaxTurnsExceeded) as caught:
        result.raise_for_outcome()
    assert caught.value.run_data is result
    rejected, allowed = result.tool_input_guardrail_results
    assert rejected.output == Output.reject_content("at most 100", {"cents": 9999})
    assert allowed.output == Output.allow("small")
    [hidden] = result.tool_output_guardrail_results
    assert (hidden.guardrail, hidden.output) == (no_keys, Output.reject_content("[removed]"))


async def test_guardrail_results_of_a_turn_belong_to_their_calls() -> None:
    agent = desk([call("pay"), call("pay", cents=9999), call("pay", note="sk-1")], say("ok"))
    result = await Runner.run(agent, "pay")
    assert outputs(result) == ["paid 1", "at most 100", "[removed]"]
    kinds = [event.type for event in result.events if event.type in ("tool_call", "guardrail")]
    assert kinds == ["tool_call", "tool_call", "guardrail", "tool_call", "guardrail"]


async def test_a_tripwire_cancels_the_other_calls_of_the_turn() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def stop(data: ToolInputGuardrailData) -> Output:
        await begun.wait()
        return Output.raise_exception()

    tool = function_tool(lambda: None, name_override="act")
    tool.tool_input_guardrails = [ToolInputGuardrail(stop)]
    model = ScriptedModel([[call("wait"), call("act")]])
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        await Runner.run(Agent("desk", model=model, tools=[wait, tool]), "go")
    assert cancelled.is_set()


async def test_a_stored_result_is_not_checked_again_after_a_crash() -> None:
    asked: list[str] = []
    tried: list[int] = []
    paid = asyncio.Event()

    @tool_output_guardrail
    def once(data: ToolOutputGuardrailData) -> Output:
        asked.append(data.context.tool_call_id)
        return Output.reject_content("hidden", output_info=("a", 1))

    @function_tool(tool_output_guardrails=[once])
    async def pay() -> str:
        return "paid"

    class Store(MemoryStore):
        async def commit(self, claim: Any, commit: Any) -> None:
            await super().commit(claim, commit)
            if any(key.endswith(".t0") for key in commit.steps or ()):
                paid.set()

    @function_tool
    async def later() -> str:
        await paid.wait()
        if not tried:
            tried.append(1)
            raise EkidenError("the process is gone")
        return "later"

    later.failure_error_function = None
    model = ScriptedModel([[call("pay", "c1"), call("later", "c2")], say("done")])
    agent = Agent("desk", model=model, tools=[pay, later])
    session = Session("s", store=Store())
    with pytest.raises(EkidenError, match="gone"):
        await Runner.run(agent, "go", session=session)
    result = await Runner.resume(agent, session)
    assert outputs(result) == ["hidden", "later"]
    assert asked == ["c1"]
    [known] = result.tool_output_guardrail_results
    assert (known.guardrail, known.output) == (once, Output.reject_content("hidden", ["a", 1]))
    assert len(guardrail_events(result.events)) == 1


async def test_guardrail_results_survive_the_removal_of_guardrail_and_tool() -> None:
    session = Session("s", store=MemoryStore())
    agent = desk([call("pay", cents=9999), call("pay", note="sk-1")], fail(ValueError("x")))
    with pytest.raises(ValueError, match="x"):
        await Runner.run(agent, "pay", session=session)
    for tools in ([], [function_tool(lambda: None, name_override="pay")]):
        again = Agent("desk", model=ScriptedModel([fail(EkidenError("x"))]), tools=tools)
        with pytest.raises(EkidenError) as caught:
            await Runner.resume(again, session)
        [known, _] = caught.value.run_data.tool_input_guardrail_results
        assert known.guardrail.get_name() == "small_sums"
        assert known.output.behavior == {"type": "reject_content", "message": "at most 100"}
        with pytest.raises(UserError, match="no longer has the guardrail"):
            await known.guardrail.run(None)
        [hidden] = caught.value.run_data.tool_output_guardrail_results
        assert hidden.guardrail.get_name() == "no keys"


class Watching(RunHooks[Any]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.seen.append("start")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.seen.append(result)


async def test_hooks_see_only_executed_calls_and_allowed_outputs() -> None:
    hooks = Watching()
    steps = (call("pay", cents=9999), call("pay", note="sk-1"), call("pay"), say("ok"))
    await Runner.run(desk(*steps), "pay", hooks=hooks)
    assert hooks.seen == ["start", "[removed]", "start", "paid 1"]


async def test_tool_guardrails_check_the_arguments_edited_at_the_approval() -> None:
    class Person:
        async def approve(self, request: Any) -> Approval:
            return Approval(approved=True, by="them", arguments='{"cents": 9999}')

    agent = desk(call("pay"), say("ok"), confirmation=Confirmation())
    result = await Runner.run(agent, "pay", run_config=RunConfig(approver=Person()))
    [output] = outputs(result)
    assert output.endswith("\nat most 100")
    assert len(guardrail_events(result.events)) == 1


async def test_a_call_rejected_by_a_person_reaches_no_guardrail() -> None:
    agent = desk(call("pay", cents=666), say("ok"), confirmation=Confirmation())
    result = await Runner.run(agent, "pay")
    assert result.tool_input_guardrail_results == []


async def test_code_gets_a_tool_error_for_a_rejection_and_can_continue() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        with pytest.raises(ToolError, match="'small_sums' rejected the call.*at most 100"):
            await ctx.call("pay", cents=9999)
        with pytest.raises(ToolError, match="'no keys' rejected the output"):
            await ctx.call("pay", note="sk-1")
        paid: str = await ctx.call("pay", cents=5)
        return paid

    result = await Runner.run(Agent("desk", run=code, tools=[pay_tool()]), "pay")
    assert result.final_output == "paid 5"
    assert len(guardrail_events(result.events)) == 2
    assert len(result.tool_input_guardrail_results) == 3


async def test_a_tripwire_ends_the_run_of_a_code_agent() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        paid: str = await ctx.call("pay", cents=666)
        return paid

    with pytest.raises(ToolInputGuardrailTripwireTriggered) as caught:
        await Runner.run(Agent("desk", run=code, tools=[pay_tool()]), "pay")
    assert len(guardrail_events(caught.value.run_data.events)) == 1


async def test_a_tripwire_of_a_nested_run_is_a_failure_of_the_outer_tool() -> None:
    inner = desk(call("pay", cents=666), call("pay", cents=666))

    @function_tool(failure_error_function=None)
    async def ask_inner() -> Any:
        return (await Runner.run(inner, "pay")).final_output

    outer = Agent("outer", model=ScriptedModel([call("ask_inner")]), tools=[ask_inner])
    with pytest.raises(ToolInputGuardrailTripwireTriggered) as caught:
        await Runner.run(outer, "go")
    data = caught.value.run_data
    assert data.last_agent is outer
    assert guardrail_events(data.events) == []

    async def code(ctx: CodeContext[Any]) -> str:
        with pytest.raises(ToolError):
            await ctx.call("ask_inner")
        return "told"

    result = await Runner.run(Agent("code", run=code, tools=[ask_inner]), "go")
    assert result.final_output == "told"


async def test_a_guardrail_error_raised_by_a_tool_records_no_guardrail_event() -> None:
    @function_tool(failure_error_function=None)
    def pretend() -> None:
        raise GuardrailError("made up")

    agent = Agent("desk", model=ScriptedModel([call("pretend")]), tools=[pretend])
    with pytest.raises(GuardrailError, match="made up") as caught:
        await Runner.run(agent, "go")
    assert guardrail_events(caught.value.run_data.events) == []


async def test_guardrails_with_equal_names_are_matched_by_their_tool() -> None:
    def named(name: str) -> ToolInputGuardrail[Any]:
        return ToolInputGuardrail(lambda data: Output.allow(name), name=name)

    tools = [function_tool(lambda: None, name_override=name) for name in ("a", "b")]
    for tool in tools:
        tool.tool_input_guardrails = [named("x"), named("y")]
        tool.tool_output_guardrails = [
            ToolOutputGuardrail(lambda data: Output.allow(), name=name) for name in "xy"
        ]
    agent = Agent("desk", model=ScriptedModel([[call("b"), call("a")], say("ok")]), tools=tools)
    result = await Runner.run(agent, "go")
    first, second = tools
    assert [known.guardrail for known in result.tool_input_guardrail_results] == [
        *(second.tool_input_guardrails or ()),
        *(first.tool_input_guardrails or ()),
    ]
    assert [known.guardrail for known in result.tool_output_guardrail_results] == [
        *(second.tool_output_guardrails or ()),
        *(first.tool_output_guardrails or ()),
    ]


async def test_without_events_guardrail_results_are_still_returned() -> None:
    config = RunConfig(events=False)
    agent = desk([call("pay"), call("pay", cents=9999)], say("ok"))
    result = await Runner.run(agent, "pay", run_config=config)
    assert outputs(result) == ["paid 1", "at most 100"]
    [known] = result.tool_input_guardrail_results
    assert known.output == Output.allow("small")


async def test_a_hanging_tool_guardrail_fails_at_the_tool_timeout() -> None:
    @tool_output_guardrail
    async def hangs(data: ToolOutputGuardrailData) -> Output:
        await asyncio.Event().wait()
        return Output.allow()

    tool = function_tool(lambda: "x", name_override="act")
    tool.tool_output_guardrails = [hangs]
    agent = Agent("desk", model=ScriptedModel([call("act")]), tools=[tool])
    with pytest.raises(GuardrailFailed, match="did not finish within"):
        await Runner.run(agent, "go", run_config=RunConfig(tool_timeout_s=0.02))


async def test_resuming_a_cancelled_run_runs_its_guardrail_again() -> None:
    begun = asyncio.Event()
    asked: list[int] = []

    async def slow_once(data: ToolOutputGuardrailData) -> Output:
        asked.append(1)
        if len(asked) == 1:
            begun.set()
            await asyncio.Event().wait()
        return Output.allow()

    tool = function_tool(lambda: "x", name_override="act")
    tool.tool_output_guardrails = [ToolOutputGuardrail(slow_once)]
    agent = Agent("desk", model=ScriptedModel([call("act"), say("done")]), tools=[tool])
    session = Session("s", store=MemoryStore())
    running = asyncio.create_task(Runner.run(agent, "go", session=session))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await Runner.resume(agent, session)).final_output == "done"
    assert len(asked) == 2


async def test_an_error_carries_the_data_of_the_unfinished_run() -> None:
    agent = desk(call("pay"), fail(EkidenError("x")))
    with pytest.raises(EkidenError) as caught:
        await Runner.run(agent, "pay")
    assert outputs(caught.value.run_data) == ["paid 1"]
    result = await Runner.run(desk(hang()), "pay", max_turns=0)
    with pytest.raises(MaxTurnsExceeded) as limited:
        result.raise_for_outcome()
    assert limited.value.run_data is result
