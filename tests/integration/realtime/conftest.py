"""Live sessions against the scripted server, over a real WebSocket on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ekiden.integrations.realtime import (
    RealtimeAgent,
    RealtimeModelSettings,
    RealtimeRunConfig,
    RealtimeRunner,
    RealtimeSession,
    RealtimeSessionEvent,
    RealtimeWebSocketModel,
)
from ekiden.sessions import Session
from ekiden.testing import RealtimeServer
from ekiden.testing.servers.realtime import RealtimeStep

TEXT = RealtimeModelSettings(output_modalities=["text"])


@dataclass
class Talk:
    """A session and the events that were read from it so far."""

    session: RealtimeSession
    events: list[RealtimeSessionEvent] = field(default_factory=list)

    async def until(self, is_it: Callable[[Any], bool]) -> Any:
        """Read up to the event that `is_it`."""
        async for event in self.session:
            self.events.append(event)
            if is_it(event):
                return event
        raise AssertionError(f"the session ended before: {self.kinds}")

    async def until_type(self, kind: str) -> Any:
        """Read up to the next event of this type."""
        return await self.until(lambda event: event.type == kind)

    async def until_said(self, text: str) -> None:
        """Read until the agent has said `text` and its turn is over."""
        await self.until(lambda event: any(item.text == text for item in self.session.history))
        await self.until_type("agent_end")

    async def rest(self) -> None:
        """Read to the end."""
        async for event in self.session:
            self.events.append(event)

    def of(self, kind: str) -> list[Any]:
        """The events of one type."""
        return [event for event in self.events if event.type == kind]

    @property
    def kinds(self) -> list[str]:
        """The types of the events, but for those that only pass on what the model told."""
        return [event.type for event in self.events if event.type != "raw_model_event"]


@asynccontextmanager
async def talking(
    steps: Iterable[RealtimeStep],
    agent: RealtimeAgent[Any],
    *,
    context: Any = None,
    session: Session | None = None,
    settings: RealtimeModelSettings = TEXT,
    **options: Any,
) -> AsyncIterator[tuple[RealtimeServer, Talk]]:
    """A server that plays `steps`, and an open session with `agent`, written unless said else."""
    config = RealtimeRunConfig(model_settings=settings, **options)
    async with RealtimeServer(steps) as server:
        model = RealtimeWebSocketModel(url=server.url, api_key="key", max_frame_bytes=64 * 1024)
        runner = RealtimeRunner(agent, model=model, config=config)
        async with await runner.run(context=context, session=session) as live:
            yield server, Talk(live)


def tool_names(frame: dict[str, Any]) -> list[str]:
    """The tools of a ``session.update``."""
    return [tool["name"] for tool in frame["session"]["tools"]]


def outputs(server: RealtimeServer) -> list[str]:
    """The results of its calls that the model got, in order."""
    items = [frame["item"] for frame in server.sent("conversation.item.create")]
    return [item["output"] for item in items if item["type"] == "function_call_output"]


@pytest.fixture(autouse=True)
def no_real_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EKIDEN_BLOCK_MODELS", "1")


@pytest.fixture
def billing() -> RealtimeAgent[Any]:
    return RealtimeAgent("billing", instructions="You know invoices.", handoff_description="Money.")


@pytest.fixture
def triage(billing: RealtimeAgent[Any]) -> RealtimeAgent[Any]:
    return RealtimeAgent("triage", instructions="Find out what it is.", handoffs=[billing])
