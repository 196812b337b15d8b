"""Bugs in the user's code are seen by the user: in the log, in the trace and on the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ekiden import (
    Agent,
    AgentHooks,
    Approval,
    Approver,
    CodeContext,
    Confirmation,
    ConfirmationRequest,
    HandoffGuardrail,
    HandoffInputData,
    RunConfig,
    Runner,
    Session,
    function_tool,
    handoff,
    remove_all_tools,
)
from ekiden.runtime import CallModelData, ModelInputData
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tracing import read_trace

_TORN = ("'lost'", "without a call_id", "no output")


def boom(*given: Any) -> Any:
    raise ValueError("boom")


class BadHooks(AgentHooks[Any]):
    async def on_start(self, *given: Any) -> None:
        boom()

    async def on_handoff(self, *given: Any) -> None:
        boom()


def team(**options: Any) -> Agent[Any]:
    target = Agent("target", model=ScriptedModel([say("of the target")]))
    return Agent(
        "source",
        model=ScriptedModel([transfer("target"), say("of the source")]),
        handoffs=[handoff(target, **options)],
    )


def hooked(source: Agent[Any]) -> Agent[Any]:
    source.hooks = BadHooks()
    source.hooks.on_start = AgentHooks().on_start  # type: ignore[method-assign]
    return source


def started_badly(source: Agent[Any]) -> Agent[Any]:
    source.handoffs[0].agent.hooks = BadHooks()
    return source


def guarded(source: Agent[Any]) -> Agent[Any]:
    source.handoff_guardrails = [HandoffGuardrail(boom, name="no leak", on_failure="warn")]
    return source


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: team(input_filter=boom), "of the source"),
        (lambda: team(on_handoff=lambda ctx: boom()), "of the source"),
        (lambda: hooked(team()), "of the source"),
        (lambda: started_badly(team()), "of the source"),
        (lambda: guarded(team()), "of the target"),
    ],
    ids=["filter", "on_handoff", "hook of the source", "hook of the target", "guardrail"],
)
async def test_a_users_exception_appears_in_log_trace_and_result(
    make: Callable[[], Agent[Any]], answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session("s", store=MemoryStore())
    result = await Runner.run(make(), "hi", session=session)

    assert result.final_output == answer
    assert [each for each in result.warnings if "boom" in each]
    assert "Traceback" in caplog.text
    assert 'raise ValueError("boom")' in caplog.text
    trace = await read_trace(session.store, "s")
    assert [span for span in trace.spans if "boom" in (span.error or "")]


async def test_an_exception_in_an_approver_is_logged_and_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @function_tool(confirmation=Confirmation())
    def pay() -> str:
        return "paid"

    class Broken(Approver):
        async def approve(self, request: ConfirmationRequest) -> Approval:
            boom()
            return Approval(approved=True, by="anna")

    agent = Agent("till", model=ScriptedModel([call("pay"), say("Not paid.")]), tools=[pay])
    result = await Runner.run(agent, "Pay.", run_config=RunConfig(approver=Broken()))
    assert result.warnings == ["approver: ValueError: boom"]
    assert 'raise ValueError("boom")' in caplog.text


async def test_an_exception_in_a_compensation_is_logged_and_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(boom, key="seat")
        raise ConnectionError("no line")

    target = Agent("target", run=fails)
    model = ScriptedModel([transfer("target"), say("Sorry.")])
    source = Agent("source", model=model, handoffs=[handoff(target, completes="result")])
    config = RunConfig(compensation_backoff_s=0)
    session = Session("s", store=MemoryStore())
    result = await Runner.run(source, "A trip.", session=session, run_config=config)
    assert "compensation 'seat': ValueError: boom" in result.warnings
    assert 'raise ValueError("boom")' in caplog.text


async def test_a_filter_separating_calls_from_outputs_drops_both_with_a_warning() -> None:
    reply = {"type": "function_call_output", "call_id": "lost", "output": "x"}
    nameless = {"type": "function_call", "name": "x", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "r1", "summary": []}

    def change(data: HandoffInputData) -> HandoffInputData:
        return data.clone(
            input_history=[*data.input_history, reply, nameless],
            pre_handoff_items=[{"role": "user", "content": "plain"}, thought],
            new_items=data.new_items[:1],
        )

    source = team(input_filter=change)
    result = await Runner.run(source, "hi")

    assert result.final_output == "of the target"
    assert [item["content"] for item in source.handoffs[0].agent.model.calls[0].input] == [
        "hi",
        "plain",
    ]
    assert [word in each for word, each in zip(_TORN, result.warnings, strict=True)] == [True] * 3
    composed = await Runner.run(team(input_filter=remove_all_tools | change), "hi")
    assert composed.final_output == "of the target"


async def test_a_model_input_filter_that_separates_calls_from_outputs_drops_both() -> None:
    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    def without_calls(data: CallModelData[Any]) -> ModelInputData:
        kept = [each for each in data.model_data.input if each.get("type") != "function_call"]
        return replace(data.model_data, input=kept)

    model = ScriptedModel([call("look"), say("done")])
    result = await Runner.run(
        Agent("a", model=model, tools=[look]),
        "hi",
        run_config=RunConfig(call_model_input_filter=without_calls),
    )
    assert [item.get("role") for item in model.calls[1].input] == ["user"]
    assert len(result.warnings) == 1
