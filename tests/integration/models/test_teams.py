"""Whole runs: agents that hand over and call tools through the real client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelDelta, ModelSettings, Usage, function_call
from ekiden.core.errors import ModelTimeout
from ekiden.core.runs import Refused
from ekiden.runtime import RunConfig, Runner, RunResult
from ekiden.testing import call, hang, say, transfer
from ekiden.testing.servers.openai import OpenAIServer, http_error, refuse
from ekiden.tools import function_tool

USAGE = Usage(
    requests=1,
    input_tokens=100,
    output_tokens=20,
    total_tokens=120,
    cached_tokens=30,
    reasoning_tokens=5,
)
REASONING = {
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "An invoice is for billing."}],
    "encrypted_content": "sealed",
}


@function_tool
def invoice_total(number: int) -> str:
    """The total of an invoice."""
    return f"invoice {number}: 42.00 EUR"


def team(model: str) -> Agent[Any]:
    billing = Agent(
        "billing",
        instructions="You answer questions about invoices.",
        handoff_description="Knows invoices.",
        model=model,
        tools=[invoice_total],
    )
    return Agent(
        "triage",
        instructions="Find out what it is about.",
        model=model,
        handoffs=[billing],
        model_settings=ModelSettings(parallel_tool_calls=False),
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let every model of this test be answered by `server`."""

    def serve(server: OpenAIServer) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)

    return serve


async def run(
    agent: Agent[Any], text: str, *, streamed: bool
) -> tuple[RunResult, list[ModelDelta]]:
    if not streamed:
        return await Runner.run(agent, text), []
    running = Runner.run_streamed(agent, text)
    deltas = [shown async for shown in running.events() if isinstance(shown, ModelDelta)]
    return running.result, deltas


async def test_a_team_hands_off_calls_a_tool_and_answers(
    api: str, streamed: bool, served: Any
) -> None:
    steps = [
        [REASONING, transfer("billing")],
        call("invoice_total", number=7),
        say("Invoice 7 comes to 42.00 EUR."),
    ]
    async with OpenAIServer(steps, usage=USAGE) as server:
        served(server)
        result, deltas = await run(team(f"{api}:gpt-5-mini"), "Invoice 7?", streamed=streamed)
    assert result.final_output == "Invoice 7 comes to 42.00 EUR."
    assert result.chain == ["user", "triage", "billing"]
    assert result.last_agent.name == "billing"
    assert result.usage == Usage(
        requests=3,
        input_tokens=300,
        output_tokens=60,
        total_tokens=360,
        cached_tokens=90,
        reasoning_tokens=15,
    )
    if streamed:
        assert "".join(d.text for d in deltas if d.kind == "text") == result.final_output
        assert any(delta.kind == "arguments" for delta in deltas)
        assert any(delta.kind == "reasoning" for delta in deltas)
    first, second, third = (json.dumps(received.body) for received in server.requests)
    assert "transfer_to_billing" in first
    assert "Knows invoices." in first
    assert "You answer questions about invoices." in second
    assert "invoice 7: 42.00 EUR" in third
    assert all(bool(received.body.get("stream")) is streamed for received in server.requests)
    assert "sk-canary" not in json.dumps(result.to_input_list())


async def test_a_team_returns_a_structured_answer(api: str, streamed: bool, served: Any) -> None:
    class Total(BaseModel):
        amount: float
        currency: str

    agent = Agent("billing", model=f"{api}:gpt-5-mini", output_type=Total)
    async with OpenAIServer([say('{"amount": 42, "currency": "EUR"}')]) as server:
        served(server)
        result, _ = await run(agent, "Invoice 7?", streamed=streamed)
    assert result.final_output == Total(amount=42, currency="EUR")


async def test_a_refusal_is_an_outcome(api: str, streamed: bool, served: Any) -> None:
    async with OpenAIServer([refuse("I will not.")]) as server:
        served(server)
        result, _ = await run(Agent("a", model=f"{api}:m"), "do it", streamed=streamed)
    assert result.outcome == Refused("I will not.")


async def test_parallel_tool_calls_are_all_answered(api: str, served: Any) -> None:
    both = [
        function_call("call_a", "invoice_total", '{"number": 1}'),
        function_call("call_b", "invoice_total", '{"number": 2}'),
    ]
    async with OpenAIServer([both, say("Both are 42.00 EUR.")]) as server:
        served(server)
        agent = Agent("billing", model=f"{api}:m", tools=[invoice_total])
        result = await Runner.run(agent, "Invoices 1 and 2?")
    assert result.final_output == "Both are 42.00 EUR."
    sent = json.dumps(server.requests[1].body)
    assert "invoice 1: 42.00 EUR" in sent
    assert "invoice 2: 42.00 EUR" in sent


async def test_a_conversation_continues_with_its_history(api: str, served: Any) -> None:
    steps = [[REASONING, transfer("billing")], say("Which invoice?"), say("It is paid.")]
    async with OpenAIServer(steps) as server:
        served(server)
        triage = team(f"{api}:gpt-5-mini")
        first = await Runner.run(triage, "My invoice?")
        items = [*first.to_input_list(), {"role": "user", "content": "Number 7."}]
        second = await Runner.run(first.last_agent, items)
    assert second.final_output == "It is paid."
    sent = json.dumps(server.requests[2].body)
    assert all(text in sent for text in ("My invoice?", "Which invoice?", "Number 7."))


async def test_a_model_call_that_exceeds_the_timeout_is_cancelled(api: str, served: Any) -> None:
    async with OpenAIServer([say("ready"), hang()]) as server:
        served(server)
        agent = Agent("a", model=f"{api}:m")
        await Runner.run(agent, "hi")
        with pytest.raises(ModelTimeout):
            await Runner.run(agent, "hi", run_config=RunConfig(model_timeout_s=1.0))
        await asyncio.wait_for(server.gone.wait(), 60)


async def test_an_overloaded_provider_does_not_fail_the_run(api: str, served: Any) -> None:
    async with OpenAIServer([http_error(429, retry_after="0"), say("ok")]) as server:
        served(server)
        result = await Runner.run(Agent("a", model=f"{api}:m"), "hi")
    assert result.final_output == "ok"
    assert result.usage.requests == 1
