"""A guardrail that cannot decide lets nothing through, whatever it does instead."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.guardrails import (
    GuardrailFailed,
    GuardrailFunctionOutput,
    HandoffGuardrail,
    InputGuardrail,
    OutputGuardrail,
)
from ekiden.runtime import RunConfig, Runner, RunResult
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, hang, say, transfer
from ekiden.tools import function_tool

Guardrail = Callable[..., Any]


def raises(*_: Any) -> Any:
    raise KeyError("the list of words")


def exits(*_: Any) -> Any:
    sys.exit(3)


def is_cancelled(*_: Any) -> Any:
    raise asyncio.CancelledError


def gives_nothing(*_: Any) -> Any:
    return None


def gives_a_truth(*_: Any) -> Any:
    return True


async def raises_later(*_: Any) -> Any:
    await asyncio.sleep(0)
    raise ValueError("no words")


async def exits_later(*_: Any) -> Any:
    await asyncio.sleep(0)
    sys.exit("bye")


async def waits_for_the_dead(*_: Any) -> Any:
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()
    await gone


async def gives_nothing_later(*_: Any) -> Any:
    await asyncio.sleep(0)


async def never_ends(*_: Any) -> Any:
    await asyncio.get_running_loop().create_future()


CRASHES = [
    raises, exits, is_cancelled, gives_nothing, gives_a_truth,
    raises_later, exits_later, waits_for_the_dead, gives_nothing_later, never_ends,
]  # fmt: skip
crashes = pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: crash.__name__)
streaming = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
company = pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "with others"])


async def passes(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput("fine")


def waiting_for(crash: Guardrail) -> RunConfig:
    """Wait shortly for what never ends, and long for what is quick on an idle machine."""
    return RunConfig(tool_timeout_s=0.02 if crash is never_ends else 30)


async def run_to_failure(
    team: Agent[Any], crash: Guardrail, *, streamed: bool
) -> tuple[GuardrailFailed, RunResult]:
    session, config = Session("s", store=MemoryStore()), waiting_for(crash)
    with pytest.raises(GuardrailFailed) as got:
        if streamed:
            async for _ in Runner.run_streamed(
                team, "hello", session=session, run_config=config
            ).events():
                pass
        else:
            await Runner.run(team, "hello", session=session, run_config=config)
    assert got.value.code == "guardrail.failed"
    assert got.value.__cause__ is not None
    events = await session.events()
    [found] = [event for event in events if event.type == "guardrail"]
    assert found.details is not None
    assert (found.details["result"], found.details["behavior"]) == ("failed", "crashed")
    assert found.error
    assert (await session.row()).outcome == "failed"
    return got.value, got.value.run_data


@crashes
@streaming
@company
@pytest.mark.parametrize("beside", [False, True], ids=["before", "beside"])
async def test_a_crashing_input_guardrail_blocks_the_input(
    crash: Guardrail, streamed: bool, is_alone: bool, beside: bool
) -> None:
    effects: list[str] = []

    @function_tool
    def work() -> str:
        effects.append("worked")
        return "done"

    rails = [InputGuardrail(crash, "broken", beside)]
    if not is_alone:
        rails.append(InputGuardrail(passes, "fine", beside))
    model = ScriptedModel(respond=lambda request: say("hi"))
    agent = Agent("desk", model=model, tools=[work], input_guardrails=rails)
    error, result = await run_to_failure(agent, crash, streamed=streamed)
    assert (error.guardrail, error.agent, error.stage) == ("broken", "desk", "input")
    assert effects == []
    assert result.new_items == []
    assert not [e for e in result.input_guardrail_results if e.guardrail.get_name() == "broken"]


@crashes
@streaming
@company
@pytest.mark.parametrize("on_failure", ["reject", "repair"])
async def test_a_crashing_output_guardrail_blocks_the_answer(
    crash: Guardrail, streamed: bool, is_alone: bool, on_failure: Any
) -> None:
    rails = [OutputGuardrail(crash, "broken", on_failure)]
    if not is_alone:
        rails.append(OutputGuardrail(passes, "fine"))
    model = ScriptedModel(["the answer"])
    agent = Agent("desk", model=model, output_guardrails=rails)
    error, result = await run_to_failure(agent, crash, streamed=streamed)
    assert (error.guardrail, error.stage) == ("broken", "output")
    assert (result.final_output, result.new_items) == (None, [])


@crashes
@streaming
@pytest.mark.parametrize("on_failure", ["reject", "repair"])
async def test_a_crashing_handoff_guardrail_blocks_the_handoff(
    crash: Guardrail, streamed: bool, on_failure: Any
) -> None:
    model = ScriptedModel([transfer("other", reason="because")])
    rails = [HandoffGuardrail(crash, "broken", on_failure)]
    other = Agent("other", model=model)
    agent = Agent("desk", model=model, handoffs=[other], handoff_guardrails=rails)
    error, result = await run_to_failure(agent, crash, streamed=streamed)
    assert (error.guardrail, error.stage) == ("broken", "handoff")
    assert result.last_agent.name == "desk"


@crashes
async def test_a_crash_of_a_warning_guardrail_is_only_a_warning(crash: Guardrail) -> None:
    model = ScriptedModel([transfer("other"), "the answer"])
    other = Agent("other", model=model, output_guardrails=[OutputGuardrail(crash, "a", "warn")])
    desk = Agent(
        "desk",
        model=model,
        handoffs=[other],
        handoff_guardrails=[HandoffGuardrail(crash, "b", "warn")],
    )
    result = await Runner.run(desk, "hello", run_config=waiting_for(crash))
    assert result.final_output == "the answer"
    found = [event.details for event in result.events if event.type == "guardrail"]
    assert [(each["guardrail"], each["result"], each["behavior"]) for each in found if each] == [
        ("b", "warned", "crashed"),
        ("a", "warned", "crashed"),
    ]
    assert result.output_guardrail_results == []


async def test_a_crash_of_a_parallel_guardrail_cancels_the_model_call() -> None:
    ended: list[str] = []

    class Endless:
        async def respond(self, request: Any) -> Any:
            try:
                await asyncio.get_running_loop().create_future()
                yield
            finally:
                ended.append("called off")

    async def crash(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise ValueError("no words")

    agent = Agent("desk", model=Endless(), input_guardrails=[InputGuardrail(crash)])
    with pytest.raises(GuardrailFailed, match="no words"):
        await Runner.run(agent, "hello")
    assert ended == ["called off"]


async def test_results_of_guardrails_that_finished_before_a_crash_are_reported() -> None:
    done = asyncio.Event()

    async def first(*_: Any) -> GuardrailFunctionOutput:
        done.set()
        return GuardrailFunctionOutput("first")

    async def second(*_: Any) -> Any:
        await done.wait()
        raise ValueError("exploded")

    rails = [InputGuardrail(second, "second"), InputGuardrail(first, "first")]
    agent = Agent("desk", model=ScriptedModel(["hi"]), input_guardrails=rails)
    with pytest.raises(GuardrailFailed) as got:
        await Runner.run(agent, "hello")
    found = got.value.run_data.input_guardrail_results
    assert [(each.guardrail.get_name(), each.output.output_info) for each in found] == [
        ("first", "first")
    ]


async def test_unfinished_guardrails_are_cancelled_after_a_tripwire() -> None:
    started, ended = asyncio.Event(), []

    async def slow(*_: Any) -> Any:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("slow")

    async def trips(*_: Any) -> GuardrailFunctionOutput:
        await started.wait()
        return GuardrailFunctionOutput(None, True)

    rails = [InputGuardrail(slow, "slow", False), InputGuardrail(trips, "trips", False)]
    agent = Agent("desk", model=ScriptedModel([]), input_guardrails=rails)
    with pytest.raises(Exception, match="'trips' blocked .*: trips says no"):
        await Runner.run(agent, "hello")
    assert ended == ["slow"]


async def test_a_cancelled_run_cancels_its_guardrails() -> None:
    started, ended = asyncio.Event(), []

    async def slow(*_: Any) -> Any:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("slow")

    rails = [InputGuardrail(slow, "a"), InputGuardrail(slow, "b")]
    agent = Agent("desk", model=ScriptedModel([hang()]), input_guardrails=rails)
    run = asyncio.create_task(Runner.run(agent, "hello"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["slow", "slow"]


async def test_an_invalid_guardrail_is_refused_before_anything_runs() -> None:
    with pytest.raises(
        UserError, match="`input_guardrails` of agent 'desk' has .*@input_guardrail"
    ):
        Agent("desk", input_guardrails=[passes])  # type: ignore[list-item]
    with pytest.raises(UserError, match=r"RunConfig.output_guardrails has .*@output_guardrail"):
        RunConfig(output_guardrails=[InputGuardrail(passes)])  # type: ignore[list-item]
