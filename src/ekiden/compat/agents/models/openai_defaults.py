"""What `set_default_openai_…` set, for every provider that is given nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from openai import AsyncOpenAI

from ekiden.compat.agents.models.openai_agent_registration import (
    OpenAIAgentRegistrationConfig,
    set_default_openai_agent_registration_config,
)
from ekiden.compat.agents.tracing.runs import set_tracing_export_api_key


@dataclass
class _Defaults:
    key: str | None = None
    client: AsyncOpenAI | None = None
    api: Literal["chat_completions", "responses"] = "responses"
    transport: Literal["http", "websocket"] = "http"


defaults = _Defaults()


def default_client() -> AsyncOpenAI:
    """The client that was set, else a new one."""
    return defaults.client or AsyncOpenAI(api_key=defaults.key)


def set_default_openai_key(key: str, use_for_tracing: bool = True) -> None:
    """Use this key instead of ``OPENAI_API_KEY``, also to send traces to OpenAI."""
    defaults.key = key
    if use_for_tracing:
        set_tracing_export_api_key(key)


def set_default_openai_client(client: AsyncOpenAI, use_for_tracing: bool = True) -> None:
    """Use this client for all requests, and its key to send traces to OpenAI."""
    defaults.client = client
    if use_for_tracing:
        set_tracing_export_api_key(client.api_key)


def set_default_openai_api(api: Literal["chat_completions", "responses"]) -> None:
    """Set the OpenAI API to use: Responses or Chat Completions."""
    if api not in ("chat_completions", "responses"):
        raise ValueError(f"the API is chat_completions or responses, not {api!r}")
    defaults.api = api


def set_default_openai_responses_transport(transport: Literal["http", "websocket"]) -> None:
    """Send requests to the Responses API over HTTP or over a WebSocket."""
    if transport not in ("http", "websocket"):
        raise ValueError(
            f"Invalid OpenAI Responses transport {transport!r}. "
            "Expected one of: 'http', 'websocket'."
        )
    defaults.transport = transport


def set_default_openai_agent_registration(
    config: OpenAIAgentRegistrationConfig | dict[str, Any] | None,
) -> None:
    """Register agents with OpenAI under this id; `None` removes the id."""
    set_default_openai_agent_registration_config(config)


def set_default_openai_harness(harness_id: str | None) -> None:
    """Like `set_default_openai_agent_registration`, with only the id."""
    config = None if harness_id is None else OpenAIAgentRegistrationConfig(harness_id=harness_id)
    set_default_openai_agent_registration_config(config)
