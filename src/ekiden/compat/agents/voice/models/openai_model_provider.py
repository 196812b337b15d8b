"""Finds OpenAI's models that hear and speak."""

from __future__ import annotations

from functools import cache
from typing import Any

from openai import AsyncOpenAI, DefaultAsyncHttpx2Client

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.models.openai_agent_registration import (
    OpenAIAgentRegistrationConfig,
    ResolvedOpenAIAgentRegistrationConfig,
    resolve_openai_agent_registration_config,
)
from ekiden.compat.agents.models.openai_provider import defaults
from ekiden.compat.agents.voice.model import STTModel, TTSModel, VoiceModelProvider
from ekiden.compat.agents.voice.models.openai_stt import OpenAISTTModel
from ekiden.compat.agents.voice.models.openai_tts import OpenAITTSModel

DEFAULT_STT_MODEL = "gpt-transcribe"
DEFAULT_TTS_MODEL = "gpt-4o-mini-tts"


@cache
def shared_http_client() -> Any:
    """One client for all models, so that connections are used again."""
    return DefaultAsyncHttpx2Client()


class OpenAIVoiceModelProvider(VoiceModelProvider):
    """Models of OpenAI. The client is created at its first use."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        organization: str | None = None,
        project: str | None = None,
        agent_registration: OpenAIAgentRegistrationConfig | dict[str, Any] | None = None,
    ) -> None:
        own = {
            "api_key": api_key,
            "base_url": base_url,
            "organization": organization,
            "project": project,
        }
        self._made_of: dict[str, Any] = {k: v for k, v in own.items() if v is not None}
        if openai_client is not None and self._made_of:
            raise UserError("give an OpenAI client, or what one is made of, but not both")
        self._client = openai_client
        self._registration = resolve_openai_agent_registration_config(agent_registration)

    @property
    def agent_registration(self) -> ResolvedOpenAIAgentRegistrationConfig | None:
        """The id for the registration of agents with OpenAI."""
        return self._registration

    def _get_client(self) -> AsyncOpenAI:
        if self._client is None and not self._made_of:
            self._client = defaults.client
        if self._client is None:
            made_of = {"api_key": defaults.key, **self._made_of}
            self._client = AsyncOpenAI(**made_of, http_client=shared_http_client())
        return self._client

    def get_stt_model(self, model_name: str | None) -> STTModel:
        """The transcription model with this name."""
        return OpenAISTTModel(model_name or DEFAULT_STT_MODEL, self._get_client())

    def get_tts_model(self, model_name: str | None) -> TTSModel:
        """The speech model with this name."""
        return OpenAITTSModel(model_name or DEFAULT_TTS_MODEL, self._get_client())
