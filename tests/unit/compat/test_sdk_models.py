"""The SDK's OpenAI models, asked over OpenAI's wire format, and sessions of the SDK's kind."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from ekiden.compat.agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    WebSearchTool,
    custom_span,
    function_tool,
    trace,
)
from ekiden.compat.agents.extensions.memory import AdvancedSQLiteSession, EncryptedSession

_SERVER = Path(__file__).resolve().parents[2] / "conformance" / "openai_server.py"


@pytest.fixture
def client() -> AsyncOpenAI:
    """A client of a server in this process that answers by fixed rules."""
    spec = importlib.util.spec_from_file_location("openai_server", _SERVER)
    assert spec is not None
    assert spec.loader is not None
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    transport = httpx2.ASGITransport(app=server.application())
    http: Any = httpx2.AsyncClient(transport=transport)
    return AsyncOpenAI(api_key="sk-test", base_url="http://test/v1", http_client=http)


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


@pytest.mark.parametrize("kind", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_model_of_openai_calls_tools_and_answers(
    client: AsyncOpenAI, kind: Any, streamed: bool
) -> None:
    agent = Agent(name="desk", tools=[weather], model=kind("gpt-5.2", client))
    config = RunConfig(tracing_disabled=True)
    if streamed:
        result: Any = Runner.run_streamed(agent, "How is it in Oslo?", run_config=config)
        deltas = [
            event.data.delta
            async for event in result.stream_events()
            if getattr(event, "data", None)
            and event.data.type == "response.output_text.delta"
            and event.data.type == "response.output_text.delta"
        ]
        assert "".join(deltas) == result.final_output
    else:
        result = await Runner.run(agent, "How is it in Oslo?", run_config=config)
    assert result.final_output == "Answer 1 to: How is it in Oslo? Tools said: sunny in Oslo"
    assert result.context_wrapper.usage.requests == 2


async def test_a_hosted_tool_reaches_the_provider(client: AsyncOpenAI) -> None:
    agent = Agent(
        name="desk", tools=[WebSearchTool()], model=OpenAIResponsesModel("gpt-5.2", client)
    )
    result = await Runner.run(agent, "News?")
    assert [item.type for item in result.new_items] == ["tool_call_item", "message_output_item"]


async def test_sessions_keep_items_in_order_and_pop_the_newest(tmp_path: Path) -> None:
    items = [{"role": "user", "content": str(number)} for number in range(3)]
    session = SQLiteSession("a", tmp_path / "chat.db")
    await session.add_items(items)
    again = SQLiteSession("a", tmp_path / "chat.db")
    assert await again.get_items() == items
    assert await again.get_items(limit=2) == items[1:]
    assert await again.pop_item() == items[2]
    await session.clear_session()
    assert await again.get_items() == []
    session.close()
    again.close()


async def test_an_encrypted_session_stores_no_plain_text() -> None:
    below = SQLiteSession("a")
    session = EncryptedSession("a", below, "a secret that is long enough")
    await session.add_items([{"role": "user", "content": "my number is 7"}])
    assert "my number" not in str(await below.get_items())
    assert await session.get_items() == [{"role": "user", "content": "my number is 7"}]


async def test_a_branch_continues_from_before_a_turn() -> None:
    session = AdvancedSQLiteSession(session_id="a", create_tables=True)
    for number in (1, 2):
        said = {"role": "user", "content": f"question {number}"}
        await session.add_items([said, {"role": "assistant", "content": f"answer {number}"}])
    name = await session.create_branch_from_turn(2)
    assert [item["content"] for item in await session.get_items()] == ["question 1", "answer 1"]
    await session.switch_to_branch("main")
    assert len(await session.get_items()) == 4
    assert {each["branch_id"] for each in await session.list_branches()} == {"main", name}


def test_spans_of_code_are_part_of_the_open_trace() -> None:
    with trace("work") as work, custom_span("outer") as outer, custom_span("inner") as inner:
        assert (outer.trace_id, outer.parent_id) == (work.trace_id, None)
        assert inner.parent_id == outer.span_id
