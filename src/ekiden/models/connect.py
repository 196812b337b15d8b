"""The library's model of each wire format, over an HTTP client of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.providers import Provider

from ekiden.models.target import Api, Target

_NO_KEY = "no-key"
"""Sent where nobody asks for a key, since the clients insist on one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A model that can be called."""

    model: Model[Any]
    settings_type: type
    """The names that its settings may have."""
    strict: bool
    """Whether strict schemas are passed on."""


def connect(target: Target, http: httpx2.AsyncClient) -> Connection:
    """The model that `target` means; calls nobody yet."""
    return _CONNECT[target.api](target, http)


def _openai_responses(target: Target, http: httpx2.AsyncClient) -> Connection:
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings

    return Connection(
        model=OpenAIResponsesModel(target.model, provider=_openai(target, http)),
        settings_type=OpenAIResponsesModelSettings,
        strict=True,
    )


def _openai_chat(target: Target, http: httpx2.AsyncClient) -> Connection:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings

    return Connection(
        model=OpenAIChatModel(target.model, provider=_openai(target, http)),
        settings_type=OpenAIChatModelSettings,
        strict=True,
    )


def _openai(target: Target, http: httpx2.AsyncClient) -> Provider[Any]:
    """OpenAI itself has features that a server which only speaks its language has not."""
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    key = target.api_key or _NO_KEY
    if target.is_official:
        return OpenAIProvider(base_url=target.base_url, api_key=key, http_client=http)
    return OpenAICompatibleProvider(
        target.source, base_url=target.base_url, api_key=key, http_client=http
    )


def _anthropic(target: Target, http: httpx2.AsyncClient) -> Connection:
    from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(
        api_key=target.api_key or _NO_KEY, base_url=target.base_url, http_client=http
    )
    return Connection(
        model=AnthropicModel(target.model, provider=provider),
        settings_type=AnthropicModelSettings,
        strict=False,
    )


def _google(target: Target, http: httpx2.AsyncClient) -> Connection:
    from pydantic_ai.models.google import GoogleModel, GoogleModelSettings
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        api_key=target.api_key or _NO_KEY, base_url=target.base_url, http_client=http
    )
    return Connection(
        model=GoogleModel(target.model, provider=provider),
        settings_type=GoogleModelSettings,
        strict=False,
    )


_CONNECT: dict[Api, Callable[[Target, httpx2.AsyncClient], Connection]] = {
    "openai-responses": _openai_responses,
    "openai-chat": _openai_chat,
    "anthropic": _anthropic,
    "google": _google,
}
