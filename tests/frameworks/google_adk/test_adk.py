"""An agent of Google ADK: killed in its tool, and resumed at its last event; and its page."""

from __future__ import annotations

import asyncio
import os
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ekiden import Agent, MemoryStore, RunConfig, Runner, Session, foreign_agent
from ekiden.project.stores import open_store
from ekiden.testing import ScriptedModel, say
from tests.frameworks.effects import booked, done, watched
from tests.frameworks.pages import run_page

CONFIG = RunConfig(lease_s=6.0, on_busy="wait", busy_timeout_s=60.0)


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        given = {part.function_response.name for part in parts if part.function_response}
        said = types.Part(text="adk done")
        for name in ("book", "transfer_to_desk"):
            if name in llm_request.tools_dict and name not in given:
                said = types.Part(function_call=types.FunctionCall(name=name, args={}))
                break
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=3, candidates_token_count=1
        )
        for text in ("adk ", "done") if stream and said.text else ():
            piece = types.Content(role="model", parts=[types.Part(text=text)])
            yield LlmResponse(content=piece, partial=True)
        content = types.Content(role="model", parts=[said])
        yield LlmResponse(content=content, usage_metadata=used)


async def book() -> dict[str, str]:
    """Book."""
    return {"result": await booked("adk")}


def member(*, hands_over: bool = True) -> Agent[Any]:
    desk = Agent("desk", model=ScriptedModel([say("Booked for you.")]))
    agent = LlmAgent(name="adk", model=Scripted(model="scripted"), tools=[book])
    return foreign_agent(agent, "adk", handoffs=[desk] if hands_over else [])


def test_an_adk_agent_killed_in_its_tool_resumes_and_hands_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    url = str(tmp_path / "s.db")

    async def first() -> None:
        async with open_store(url) as store:
            session = Session("s", store=store)
            await Runner.run(member(), "please book", session=session, run_config=CONFIG)

    def life() -> None:
        os.environ["KILL"] = "adk:after"
        asyncio.run(first())

    victim = get_context("fork").Process(target=life)
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL

    async def again() -> tuple[Any, list[Any]]:
        async with open_store(url) as store:
            session = Session("s", store=store)
            result = await Runner.resume(member(), session=session, run_config=CONFIG)
            return result.final_output, list(await session.events())

    output, events = asyncio.run(again())
    assert output == "Booked for you."
    made = done(tmp_path / "effects")
    assert len(made) == 2  # The event of the call was the last: the tool is repeated,
    assert len(set(made)) == 1  # under the same key.
    calls = [each.items[0]["name"] for each in events if each.type == "tool_call"]
    assert calls == ["book", "transfer_to_desk"]


async def test_cancelling_the_run_reaches_the_tool_of_an_adk_agent() -> None:
    with watched(hangs=True) as inside:
        run = asyncio.create_task(Runner.run(member(), "please book"))
        await inside.begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert inside.cancelled


async def test_the_spans_of_an_adk_agent_are_nested_and_its_text_is_streamed() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    with watched() as inside:
        streamed = Runner.run_streamed(member(hands_over=False), "please book")
        shown = [
            event.data.text
            async for event in streamed.stream_events()
            if event.type == "raw_response_event"
        ]
    assert shown == ["adk ", "done"]
    made = spans.get_finished_spans()
    assert made
    assert {f"{each.context.trace_id:032x}" for each in made} == set(inside.traces)
    outermost = [each for each in made if each.parent and each.parent.is_remote]
    assert outermost


async def test_storage_of_a_long_conversation_grows_linearly() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    agent = foreign_agent(LlmAgent(name="adk", model=Scripted(model="scripted")), "adk")
    sizes = []
    for number in range(33):
        await Runner.run(agent, "hello" * 100, session=session)
        if number in (15, 31):
            steps = await store.steps("s")
            sizes.append(sum(len(str(value)) for key, value in steps.items() if ".k" in key))
    assert sizes[1] < 3 * sizes[0]  # Four times, if each turn stored the whole conversation.


def test_the_examples_of_the_adk_page_run() -> None:
    run_page("google_adk/google-adk.md")
