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

from ekiden import Agent, RunConfig, Runner, Session, foreign_agent
from ekiden.project.stores import open_store
from ekiden.testing import ScriptedModel, say
from tests.frameworks.effects import done, effect
from tests.frameworks.pages import run_page

CONFIG = RunConfig(lease_s=6.0, on_busy="wait", busy_timeout_s=60.0)


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        given = {part.function_response.name for part in parts if part.function_response}
        said = types.Part(text="adk done")
        for name in ("book", "transfer_to_desk"):
            if name not in given:
                said = types.Part(function_call=types.FunctionCall(name=name, args={}))
                break
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=3, candidates_token_count=1
        )
        content = types.Content(role="model", parts=[said])
        yield LlmResponse(content=content, usage_metadata=used)


def book() -> dict[str, str]:
    """Book."""
    return {"result": effect("adk")}


def member() -> Agent[Any]:
    desk = Agent("desk", model=ScriptedModel([say("Booked for you.")]))
    agent = LlmAgent(name="adk", model=Scripted(model="scripted"), tools=[book])
    return foreign_agent(agent, "adk", handoffs=[desk])


def test_it_is_killed_in_its_tool_resumes_and_hands_over(
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


def test_the_examples_of_its_page_run() -> None:
    run_page("google_adk/google-adk.md")
