"""Runs that share one WebSocket to OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ekiden.compat.agents.models.multi_provider import (
    MultiProvider,
    MultiProviderOpenAIPrefixMode,
    MultiProviderUnknownPrefixMode,
)
from ekiden.compat.agents.models.openai_provider import OpenAIProvider
from ekiden.compat.agents.models.openai_responses import OpenAIResponsesWebSocketOptions
from ekiden.compat.agents.run import Runner
from ekiden.compat.agents.run_config import RunConfig


@dataclass(frozen=True)
class ResponsesWebSocketSession:
    """Runs agents over the connection of its provider."""

    provider: OpenAIProvider
    run_config: RunConfig

    async def aclose(self) -> None:
        """Close the connection."""
        await self.provider.aclose()

    async def run(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """The same as `Runner.run`."""
        _check(kwargs)
        return await Runner.run(starting_agent, input, run_config=self.run_config, **kwargs)

    def run_streamed(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """The same as `Runner.run_streamed`."""
        _check(kwargs)
        return Runner.run_streamed(starting_agent, input, run_config=self.run_config, **kwargs)


def _check(kwargs: dict[str, Any]) -> None:
    if "run_config" in kwargs:
        raise ValueError("`run_config` is the session's own: set it on the session")


@asynccontextmanager
async def responses_websocket_session(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    websocket_base_url: str | None = None,
    organization: str | None = None,
    project: str | None = None,
    openai_prefix_mode: MultiProviderOpenAIPrefixMode = "alias",
    unknown_prefix_mode: MultiProviderUnknownPrefixMode = "error",
    responses_websocket_options: OpenAIResponsesWebSocketOptions | None = None,
) -> AsyncIterator[ResponsesWebSocketSession]:
    """A context manager for a session; it closes the connection at the end."""
    provider = MultiProvider(
        openai_api_key=api_key,
        openai_base_url=base_url,
        openai_websocket_base_url=websocket_base_url,
        openai_organization=organization,
        openai_project=project,
        openai_use_responses=True,
        openai_use_responses_websocket=True,
        openai_prefix_mode=openai_prefix_mode,
        unknown_prefix_mode=unknown_prefix_mode,
        openai_responses_websocket_options=responses_websocket_options,
    )
    session = ResponsesWebSocketSession(
        provider=provider.openai_provider, run_config=RunConfig(model_provider=provider)
    )
    try:
        yield session
    finally:
        await session.aclose()
