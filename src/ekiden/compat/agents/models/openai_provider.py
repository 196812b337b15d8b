"""Finds OpenAI's models by name, and the defaults that `set_default_openai_…` set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from openai import AsyncOpenAI

from ekiden.compat.agents.models.default_models import get_default_model
from ekiden.compat.agents.models.interface import Model, ModelProvider
from ekiden.compat.agents.models.openai_agent_registration import (
    OpenAIAgentRegistrationConfig,
    ResolvedOpenAIAgentRegistrationConfig,
    resolve_openai_agent_registration_config,
    set_default_openai_agent_registration_config,
)
from ekiden.compat.agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from ekiden.compat.agents.models.openai_responses import (
    OpenAIResponsesModel,
    OpenAIResponsesWebSocketOptions,
    OpenAIResponsesWSModel,
)
from ekiden.compat.agents.not_supported import placeholders
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


DEFAULT_MODEL = "gpt-4o"


class OpenAIProvider(ModelProvider):
    """Models of OpenAI, or of a server with the same API."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        websocket_base_url: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        organization: str | None = None,
        project: str | None = None,
        use_responses: bool | None = None,
        use_responses_websocket: bool | None = None,
        strict_feature_validation: bool = False,
        agent_registration: OpenAIAgentRegistrationConfig | dict[str, Any] | None = None,
        responses_websocket_options: OpenAIResponsesWebSocketOptions | None = None,
    ) -> None:
        own = (api_key, base_url, websocket_base_url, organization, project)
        if openai_client is not None and any(each is not None for each in own):
            raise ValueError("give an OpenAI client, or what one is made of, but not both")
        self._client = openai_client
        self._made_of: dict[str, Any] = {
            "api_key": api_key,
            "base_url": base_url,
            "websocket_base_url": websocket_base_url,
            "organization": organization,
            "project": project,
        }
        self._use_responses = use_responses
        self._use_websocket = use_responses_websocket
        self._strict = strict_feature_validation
        self._socket_options = responses_websocket_options
        self._registration = resolve_openai_agent_registration_config(agent_registration)
        self._sockets: dict[str, OpenAIResponsesWSModel] = {}

    @property
    def agent_registration(self) -> ResolvedOpenAIAgentRegistrationConfig | None:
        """The id for the registration of agents with OpenAI."""
        return self._registration

    def _get_client(self) -> AsyncOpenAI:
        # Made on first use: a program may have no key and never call OpenAI.
        if self._client is None:
            key = self._made_of["api_key"] or defaults.key
            self._client = defaults.client or AsyncOpenAI(**{**self._made_of, "api_key": key})
        return self._client

    def get_model(self, model_name: str | None) -> Model:
        """The model with this name; `None` means the default model."""
        name = model_name or get_default_model()
        client = self._get_client()
        uses_responses = self._use_responses
        if uses_responses is None:
            uses_responses = defaults.api == "responses"
        if not uses_responses:
            return OpenAIChatCompletionsModel(
                model=name, openai_client=client, strict_feature_validation=self._strict
            )
        over_socket = self._use_websocket
        if over_socket is None:
            over_socket = defaults.transport == "websocket"
        if not over_socket:
            return OpenAIResponsesModel(name, client, model_is_explicit=model_name is not None)
        if name not in self._sockets:
            self._sockets[name] = OpenAIResponsesWSModel(
                name,
                client,
                model_is_explicit=model_name is not None,
                websocket_options=self._socket_options,
            )
        return self._sockets[name]

    async def aclose(self) -> None:
        """Close the connections of its models."""
        models, self._sockets = self._sockets, {}
        for model in models.values():
            await model.close()


__getattr__ = placeholders(__name__)
