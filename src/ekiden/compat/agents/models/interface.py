"""The SDK's roles of a model and of a provider of models."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator
from typing import Any

from ekiden.compat.agents.tracing.model_tracing import ModelTracing as ModelTracing


class Model(abc.ABC):
    """A model that answers a conversation."""

    async def close(self) -> None:
        """Release the resources of the model; does nothing by default."""
        return None

    def get_retry_advice(self, request: Any) -> Any:
        """The model's advice about retrying a failed call; `None` by default."""
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
        """The answer as a stream of events of OpenAI's Responses API."""


class ModelProvider(abc.ABC):
    """Finds models by name."""

    @abc.abstractmethod
    def get_model(self, model_name: str | None) -> Model:
        """The model with this name; `None` means the default model."""

    async def aclose(self) -> None:
        """Release the resources of the provider; does nothing by default."""
        return None
