"""The SDK's roles of a model and of a provider of models."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator
from typing import Any

from ekiden.compat.agents.tracing.model_tracing import ModelTracing

__all__ = ["Model", "ModelProvider", "ModelTracing"]


class Model(abc.ABC):
    """Anything that answers a conversation."""

    async def close(self) -> None:
        """Give up what the model holds; nothing by default."""
        return None

    def get_retry_advice(self, request: Any) -> Any:
        """What the model knows about repeating a failed call; nothing by default."""
        return None

    @abc.abstractmethod
    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: Any,
    ) -> Any:
        """The whole answer, a `ModelResponse`."""

    @abc.abstractmethod
    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: Any,
    ) -> AsyncIterator[Any]:
        """The answer piece by piece, as events of OpenAI's Responses API."""


class ModelProvider(abc.ABC):
    """Finds models by name."""

    @abc.abstractmethod
    def get_model(self, model_name: str | None) -> Model:
        """The model of that name; `None` is the default one."""

    async def aclose(self) -> None:
        """Give up what the provider holds; nothing by default."""
        return None
