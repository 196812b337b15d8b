"""The other SDK's module tree: its names, our objects."""

from __future__ import annotations

import importlib
from itertools import accumulate
from typing import Any

import pytest

from ekiden.compat import agents
from ekiden.compat.agents.not_supported import public_names
from ekiden.core.events import Event
from ekiden.testing import ScriptedModel, say


def test_a_name_of_the_sdk_is_one_object_in_each_of_its_modules() -> None:
    names = public_names()
    for path in names:
        if "sandbox" in path or ".experimental." in path:
            continue  # Only placeholders; and Codex has a `Usage` of its own, in the SDK as well.
        module = importlib.import_module(f"ekiden.compat.{path}")
        for package in accumulate(path.split("."), "{}.{}".format):
            above = importlib.import_module(f"ekiden.compat.{package}")
            for shared in set(names[path]) & set(names[package]):
                assert getattr(module, shared) is getattr(above, shared), (path, shared)


async def test_a_program_written_for_the_openai_sdk_runs() -> None:
    billing: agents.Agent[Any] = agents.Agent(name="Billing", handoff_description="Invoices.")
    triage: agents.Agent[Any] = agents.Agent(name="Triage", handoffs=[agents.handoff(billing)])
    transfer = {
        "type": "function_call",
        "call_id": "1",
        "name": agents.Handoff.default_tool_name(billing),
        "arguments": "{}",
    }
    model = ScriptedModel([[transfer], say("It is paid.")])
    config = agents.RunConfig(model=model)
    result = await agents.Runner.run(triage, input="My invoice?", run_config=config)
    assert result.final_output == "It is paid."
    assert result.last_agent is billing
    assert [item.type for item in result.new_items] == [
        "handoff_call_item",
        "handoff_output_item",
        "message_output_item",
    ]


class Sink:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize("recorded", [True, False])
async def test_the_text_of_an_error_is_recorded_only_on_request(recorded: bool) -> None:
    def broken(data: Any) -> Any:
        raise ValueError("a secret")

    sink = Sink()
    config = agents.RunConfig(
        call_model_input_filter=broken, trace_include_sensitive_data=recorded, sinks=[sink]
    )
    agent: agents.Agent[Any] = agents.Agent(name="test", model=ScriptedModel())
    with pytest.raises(ValueError, match="a secret"):
        await agents.Runner.run(agent, input="start", run_config=config)
    assert ("a secret" in str([event.to_json() for event in sink.events])) is recorded


async def test_tool_guardrails_of_the_sdk_run() -> None:
    @agents.tool_input_guardrail
    def no_passwords(
        data: agents.ToolInputGuardrailData,
    ) -> agents.ToolGuardrailFunctionOutput:
        if "password" in data.context.tool_arguments:
            return agents.ToolGuardrailFunctionOutput.reject_content("no passwords")
        return agents.ToolGuardrailFunctionOutput.allow()

    @agents.function_tool(tool_input_guardrails=[no_passwords])
    def send(text: str) -> str:
        return "sent"

    sending = {"type": "function_call", "name": "send", "arguments": '{"text": "password: x"}'}
    model = ScriptedModel([[{**sending, "call_id": "1"}], say("I may not.")])
    agent: agents.Agent[Any] = agents.Agent(name="Mail", model=model, tools=[send])
    result = await agents.Runner.run(agent, "send it")
    assert result.final_output == "I may not."
    [known] = result.tool_input_guardrail_results
    assert isinstance(known, agents.ToolInputGuardrailResult)
    assert known.guardrail is no_passwords
