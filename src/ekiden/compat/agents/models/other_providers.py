"""Models of other providers over their Chat Completions: no other library is needed."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageFunctionToolCall

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.models.default_models import get_default_model
from ekiden.compat.agents.models.interface import Model, ModelProvider
from ekiden.compat.agents.models.openai_chatcompletions import OpenAIChatCompletionsModel

AnyLLMApi: TypeAlias = Literal["responses", "chat_completions"]

_ADDRESSES = {
    "anthropic": "https://api.anthropic.com/v1/",
    "deepseek": "https://api.deepseek.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai/",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "ollama": "http://localhost:11434/v1",
    "openai": None,
    "openrouter": "https://openrouter.ai/api/v1",
    "together": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
}
"""Providers that speak OpenAI's Chat Completions, and where."""


class InternalChatCompletionMessage(ChatCompletionMessage):
    """A message with the fields that other providers add."""

    reasoning_content: str = ""
    thinking_blocks: list[dict[str, Any]] | None = None


class InternalToolCall(ChatCompletionMessageFunctionToolCall):
    """A call with the fields that Google adds."""

    extra_content: dict[str, Any] | None = None


class AnyLLMModel(OpenAIChatCompletionsModel):
    """``provider/model`` through the provider's Chat Completions, without another library."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        api: AnyLLMApi | None = None,
        **kwargs: Any,
    ) -> None:
        provider, slash, name = model.partition("/")
        if not slash:
            provider, name = "openai", model
        if base_url is None and provider not in _ADDRESSES:
            known = ", ".join(sorted(_ADDRESSES))
            raise UserError(f"give `base_url` for provider {provider!r}; known are {known}")
        key = api_key or os.environ.get(f"{provider.upper()}_API_KEY")
        if key is None and provider == "ollama":
            key = "ollama"
        address = base_url or _ADDRESSES.get(provider)
        self.base_url, self.api_key = base_url, api_key
        super().__init__(name, AsyncOpenAI(api_key=key, base_url=address), **kwargs)


class AnyLLMProvider(ModelProvider):
    """Models by ``provider/model``."""

    def __init__(
        self,
        *,
        api: AnyLLMApi | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
    ) -> None:
        self._api, self._key, self._url = api, api_key, base_url

    def get_model(self, model_name: str | None) -> Model:
        """The model of that name; `None` is the default model."""
        name = model_name or f"openai/{get_default_model()}"
        return AnyLLMModel(name, base_url=self._url, api_key=self._key, api=self._api)


class LitellmModel(AnyLLMModel):
    """``provider/model``; no code of LiteLLM runs."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        should_replay_reasoning_content: Any = None,
    ) -> None:
        super().__init__(
            model,
            base_url,
            api_key,
            should_replay_reasoning_content=should_replay_reasoning_content,
        )


class LitellmProvider(ModelProvider):
    """Models by ``provider/model``."""

    def get_model(self, model_name: str | None) -> Model:
        """The model of that name; `None` is the default model."""
        return LitellmModel(model_name or get_default_model())
