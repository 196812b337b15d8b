"""Requests that are rebuilt from a session are sent to a provider in the same bytes as before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ekiden import (
    Agent,
    ModelSettings,
    RunConfig,
    Runner,
    Session,
    function_tool,
    handoff,
    recorded_request,
)
from ekiden.models import resolve_model
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import call, say, transfer
from ekiden.testing.servers.loopback import HttpReply, HttpRequest
from ekiden.testing.servers.openai import OpenAIServer
from tests.integration.models.test_anthropic import MODEL as CLAUDE, AnthropicServer

STEPS = [transfer("clerk", reason="a parcel"), call("look_up", order=7), say("It is late.")]
BLOCKS = [
    [
        {
            "type": "tool_use",
            "id": "t1",
            "name": "transfer_to_clerk",
            "input": {"reason": "a parcel"},
        }
    ],
    [{"type": "tool_use", "id": "t2", "name": "look_up", "input": {"order": 7}}],
    [{"type": "text", "text": "It is late."}],
]


class Recording:
    """Remembers the bodies of requests."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[bytes] = []

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        self.sent.append(request.body)
        await super().handle(request, reply)  # type: ignore[misc]


class RecordingOpenAI(Recording, OpenAIServer):
    pass


class RecordingAnthropic(Recording, AnthropicServer):
    pass


@asynccontextmanager
async def provider(name: str) -> AsyncIterator[tuple[Any, Any]]:
    """A server that plays the conversation twice, and the model that talks to it."""
    server: Any
    if name == "anthropic":
        async with RecordingAnthropic(BLOCKS * 2) as server:
            yield server, resolve_model(f"anthropic:{CLAUDE}", base_url=server.origin, api_key="k")
    elif name == "google":
        from tests.integration.models.test_google import MODEL, GoogleServer

        class RecordingGoogle(Recording, GoogleServer):
            pass

        parts = [
            [{"functionCall": {"name": "transfer_to_clerk", "args": {"reason": "a parcel"}}}],
            [{"functionCall": {"name": "look_up", "args": {"order": 7}}}],
            [{"text": "It is late."}],
        ]
        async with RecordingGoogle(parts * 2) as server:
            yield server, resolve_model(f"google:{MODEL}", base_url=server.origin, api_key="k")
    else:
        async with RecordingOpenAI(STEPS * 2) as server:
            yield server, resolve_model(f"{name}:m", base_url=server.base_url, api_key="k")


@function_tool
def look_up(order: int, place: str = "shop") -> str:
    """Find an order."""
    return "on its way"


def team(model: Any) -> Agent[Any]:
    clerk = Agent(
        "clerk",
        model=model,
        instructions=lambda context, agent: "Be kind to “Ada”.",
        tools=[look_up],
        model_settings=ModelSettings(temperature=0.5),
    )
    return Agent("desk", model=model, instructions="Send people on.", handoffs=[handoff(clerk)])


@pytest.mark.parametrize("name", ["openai", "openai-chat", "anthropic", "google"])
async def test_a_rebuilt_request_has_the_same_bytes(
    name: str, streamed: bool, tmp_path: Path
) -> None:
    if name == "google" and find_spec("google.genai") is None:
        pytest.skip("google-genai is not installed")
    async with SqliteStore(tmp_path / "s.db") as store, provider(name) as (server, model):
        session = Session("s", store=store)
        config = RunConfig(model_settings=ModelSettings(max_tokens=300))
        if streamed:
            async for _ in Runner.run_streamed(
                team(model), "Where is 7?", session=session, run_config=config
            ).stream_events():
                pass
        else:
            await Runner.run(team(model), "Where is 7?", session=session, run_config=config)
        before = list(server.sent)
        for event in await session.events():
            if event.type == "llm_call":
                request = await recorded_request(store, "s", event.seq)
                async for _ in model.respond(request.model_request(stream=streamed)):
                    pass
        assert len(before) == len(STEPS)
        assert server.sent[len(before) :] == before
