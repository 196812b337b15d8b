"""Tools in a live session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden import ToolContext, function_tool
from ekiden.core.guardrails import GuardrailError
from ekiden.core.tools.guardrails import ToolGuardrailFunctionOutput, tool_input_guardrail
from ekiden.integrations.realtime import (
    RealtimeAgent,
)
from ekiden.testing import call, say
from tests.integration.realtime.conftest import outputs, talking


@function_tool
def clock(ctx: ToolContext[Any]) -> str:
    """What time it is."""
    return f"noon for {ctx.context}, {ctx.tool_call_id}"


async def test_a_tool_gets_the_context_and_its_output_is_sent() -> None:
    desk = RealtimeAgent("desk", tools=[clock])
    steps = [call("clock", call_id="c1"), say("Noon.")]
    async with talking(steps, desk, context="Kim") as (server, live):
        await live.session.send_message("What time is it?")
        await live.until_said("Noon.")
    assert outputs(server) == ["noon for Kim, c1"]
    [start], [end] = live.of("tool_start"), live.of("tool_end")
    assert (start.agent, start.tool, start.arguments) == (desk, clock, "{}")
    assert (end.tool, end.output) == (clock, "noon for Kim, c1")
    assert live.session.context.usage.requests == 2
    assert live.session.context.usage.input_tokens == 20


async def test_an_unknown_tool_is_reported_with_the_known_tools() -> None:
    desk = RealtimeAgent("desk", tools=[clock])
    async with talking([call("fly"), say("I cannot.")], desk) as (server, live):
        await live.session.send_message("Fly!")
        await live.until_said("I cannot.")
    assert outputs(server) == ["Error: there is no tool called 'fly'; there are: clock"]


async def test_a_tool_failure_is_reported_and_the_session_continues() -> None:
    @function_tool
    def forgiving() -> str:
        """Fail softly."""
        raise ValueError("soft")

    @function_tool(failure_error_function=None)
    def strict() -> str:
        """Fail hard."""
        raise ValueError("hard")

    desk = RealtimeAgent("desk", tools=[forgiving, strict])
    steps = [[call("forgiving"), call("strict")], say("Both failed.")]
    async with talking(steps, desk) as (server, live):
        await live.session.send_message("Go")
        await live.until_said("Both failed.")
    assert outputs(server) == [
        "The tool failed with ValueError: soft",
        "Error: the tool failed with ValueError: hard",
    ]
    assert [str(event.error) for event in live.of("error")] == ["hard"]
    assert len(live.of("tool_end")) == 2


async def test_a_hanging_tool_times_out() -> None:
    @function_tool
    async def slow() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return "never"

    desk = RealtimeAgent("desk", tools=[slow])
    async with talking([call("slow"), say("Too slow.")], desk, tool_timeout_s=0.01) as (
        server,
        live,
    ):
        await live.session.send_message("Go")
        await live.until_said("Too slow.")
    assert "did not finish within 0.01 s" in outputs(server)[0]


async def test_calls_beyond_the_limit_of_a_turn_are_not_made() -> None:
    desk = RealtimeAgent("desk", tools=[clock])
    steps = [[call("clock") for _ in range(3)], say("Ok.")]
    async with talking(steps, desk, max_calls=2) as (server, live):
        await live.session.send_message("Go")
        await live.until_said("Ok.")
    assert len(live.of("tool_end")) == 2
    assert outputs(server)[2] == "Error: only 2 calls are made in one turn"


async def test_a_tool_can_close_the_session() -> None:
    sessions: list[Any] = []

    @function_tool
    async def hang_up() -> str:
        """Say goodbye."""
        await sessions[0].close()
        return "never sent"

    desk = RealtimeAgent("desk", tools=[hang_up])
    async with talking([call("hang_up")], desk) as (server, live):
        sessions.append(live.session)
        await live.session.send_message("Bye")
        await live.rest()
    assert outputs(server) == []


async def test_a_tool_can_send_a_user_message() -> None:
    sessions: list[Any] = []

    @function_tool
    async def remind() -> str:
        """Remind."""
        await sessions[0].send_message("Do not forget the milk")
        return "reminded"

    desk = RealtimeAgent("desk", tools=[remind])
    async with talking([call("remind"), say("Milk."), say("Done.")], desk) as (server, live):
        sessions.append(live.session)
        await live.session.send_message("Remind me")
        await live.until_said("Done.")
    assert outputs(server) == ["reminded"]


async def test_a_tool_guardrail_rejects_a_call_or_ends_the_session() -> None:
    @tool_input_guardrail
    def strict(data: Any) -> ToolGuardrailFunctionOutput:
        if "steal" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.raise_exception()
        return ToolGuardrailFunctionOutput.reject_content("not that")

    @function_tool
    def do(what: str) -> str:
        """Do something."""
        raise AssertionError("it must not run")

    do.tool_input_guardrails = [strict]
    desk = RealtimeAgent("desk", tools=[do])
    steps = [call("do", what="borrow"), say("No."), call("do", what="steal")]
    async with talking(steps, desk) as (server, live):
        await live.session.send_message("Borrow it")
        await live.until_said("No.")
        await live.session.send_message("Steal it")
        with pytest.raises(GuardrailError):
            await live.rest()
    assert outputs(server) == ["not that"]
