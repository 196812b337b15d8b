"""Guardrails under the other SDK's names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.compat import agents
from ekiden.compat.agents.run_internal.guardrails import (
    run_input_guardrails,
    run_input_guardrails_with_queue,
    run_output_guardrails,
)
from ekiden.compat.agents.testing import ScriptedModel

AGENT: agents.Agent[Any] = agents.Agent("a")
CONTEXT: agents.RunContextWrapper[Any] = agents.RunContextWrapper(None)


@agents.input_guardrail(name="trips")
def trips(ctx: Any, agent: Any, given: Any) -> agents.GuardrailFunctionOutput:
    return agents.GuardrailFunctionOutput(given, tripwire_triggered=True)


@agents.input_guardrail(name="waits")
async def waits(ctx: Any, agent: Any, given: Any) -> agents.GuardrailFunctionOutput:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


@agents.output_guardrail
def is_fine(ctx: Any, agent: Any, output: Any) -> agents.GuardrailFunctionOutput:
    return agents.GuardrailFunctionOutput(output, tripwire_triggered=output == "bad")


async def test_the_first_that_trips_ends_the_others() -> None:
    found: list[agents.InputGuardrailResult] = []
    with pytest.raises(agents.InputGuardrailTripwireTriggered) as got:
        await run_input_guardrails(AGENT, [waits, trips], "hello", CONTEXT, found)
    assert [each.guardrail for each in found] == [trips]
    assert got.value.guardrail_result is found[0]
    with pytest.raises(agents.InputGuardrailTripwireTriggered):
        await run_input_guardrails_with_queue(AGENT, [trips], "hello", CONTEXT)


async def test_outputs_are_looked_at_in_the_same_way() -> None:
    [found] = await run_output_guardrails([is_fine], AGENT, "good", CONTEXT)
    assert (found.agent_output, found.output.tripwire_triggered) == ("good", False)
    with pytest.raises(agents.OutputGuardrailTripwireTriggered, match="answer of agent 'a'"):
        await run_output_guardrails([is_fine], AGENT, "bad", CONTEXT)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_scripted_model_has_the_doors_of_that_sdk(streamed: bool) -> None:
    model = ScriptedModel(["hi"])
    agent: agents.Agent[Any] = agents.Agent("a", model=model)
    if streamed:
        run = agents.Runner.run_streamed(agent, "hello")
        kinds = [event.type async for event in run.stream_events()]
        assert kinds.count("raw_response_event") > 1
        assert run.final_output == "hi"
    else:
        assert (await agents.Runner.run(agent, "hello")).final_output == "hi"
