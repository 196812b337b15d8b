"""Finds models by name: the part before the first slash names the provider."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeAlias

from openai import AsyncOpenAI

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.models.interface import Model, ModelProvider
from ekiden.compat.agents.models.openai_agent_registration import OpenAIAgentRegistrationConfig
from ekiden.compat.agents.models.openai_provider import OpenAIProvider, defaults
from ekiden.compat.agents.models.openai_responses import OpenAIResponsesWebSocketOptions

MultiProviderOpenAIPrefixMode: TypeAlias = Literal["alias", "model_id"]
MultiProviderUnknownPrefixMode: TypeAlias = Literal["error", "model_id"]


class MultiProviderMap:
    """Providers by the prefix of a model's name."""

    def __init__(self) -> None:
        self._mapping: dict[str, ModelProvider] = {}

    def has_prefix(self, prefix: str) -> bool:
        """Whether there is a provider for the prefix."""
        return prefix in self._mapping

    def get_mapping(self) -> dict[str, ModelProvider]:
        """All providers, as a copy."""
        return self._mapping.copy()

    def set_mapping(self, mapping: dict[str, ModelProvider]) -> None:
        """Use these providers and no others."""
        self._mapping = mapping.copy()

    def get_provider(self, prefix: str) -> ModelProvider | None:
        """The provider for a prefix."""
        return self._mapping.get(prefix)

    def add_provider(self, prefix: str, provider: ModelProvider) -> None:
        """Use a provider for a prefix."""
        self._mapping[prefix] = provider

    def remove_provider(self, prefix: str) -> None:
        """Forget the provider for a prefix."""
        del self._mapping[prefix]


class MultiProvider(ModelProvider):
    """Uses OpenAI for plain names and ``openai/…``, and your providers or Ekiden's for other
    prefixes."""

    def __init__(
        self,
        *,
        provider_map: MultiProviderMap | None = None,
        openai_api_key: str | None = None,
        openai_base_url: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        openai_organization: str | None = None,
        openai_project: str | None = None,
        openai_use_responses: bool | None = None,
        openai_use_responses_websocket: bool | None = None,
        openai_strict_feature_validation: bool = False,
        openai_websocket_base_url: str | None = None,
        openai_prefix_mode: MultiProviderOpenAIPrefixMode = "alias",
        unknown_prefix_mode: MultiProviderUnknownPrefixMode = "error",
        openai_agent_registration: OpenAIAgentRegistrationConfig | dict[str, Any] | None = None,
        openai_responses_websocket_options: OpenAIResponsesWebSocketOptions | None = None,
    ) -> None:
        if openai_prefix_mode not in ("alias", "model_id"):
            raise UserError("MultiProvider openai_prefix_mode must be one of: 'alias', 'model_id'.")
        if unknown_prefix_mode not in ("error", "model_id"):
            raise UserError(
                "MultiProvider unknown_prefix_mode must be one of: 'error', 'model_id'."
            )
        self.provider_map = provider_map
        self.openai_provider = OpenAIProvider(
            api_key=openai_api_key,
            base_url=openai_base_url,
            websocket_base_url=openai_websocket_base_url,
            openai_client=openai_client,
            organization=openai_organization,
            project=openai_project,
            use_responses=openai_use_responses,
            use_responses_websocket=openai_use_responses_websocket,
            strict_feature_validation=openai_strict_feature_validation,
            agent_registration=openai_agent_registration,
            responses_websocket_options=openai_responses_websocket_options,
        )
        self._openai_prefix_mode = openai_prefix_mode
        self._unknown_prefix_mode = unknown_prefix_mode
        self._fallbacks: dict[str, ModelProvider] = {}

    def get_model(self, model_name: str | None) -> Model:
        """The model with this name; `None` means the default model."""
        prefix, slash, rest = (model_name or "").partition("/")
        if not slash:
            return self.openai_provider.get_model(model_name)
        if self.provider_map is not None:
            provider = self.provider_map.get_provider(prefix)
            if provider is not None:
                return provider.get_model(rest)
        if prefix == "openai":
            whole = self._openai_prefix_mode == "model_id"
            return self.openai_provider.get_model(model_name if whole else rest)
        if prefix in ("litellm", "any-llm"):
            return self._fallback(prefix).get_model(rest)
        if self._unknown_prefix_mode == "model_id":
            return self.openai_provider.get_model(model_name)
        raise UserError(f"Unknown prefix: {prefix}")

    def _fallback(self, prefix: str) -> ModelProvider:
        if prefix not in self._fallbacks:
            if prefix == "litellm":
                from ekiden.compat.agents.models.other_providers import LitellmProvider

                self._fallbacks[prefix] = LitellmProvider()
            else:
                from ekiden.compat.agents.models.other_providers import AnyLLMProvider

                self._fallbacks[prefix] = AnyLLMProvider()
        return self._fallbacks[prefix]

    async def aclose(self) -> None:
        """Release the resources of its providers."""
        mapped = [] if self.provider_map is None else list(self.provider_map.get_mapping().values())
        for provider in (self.openai_provider, *self._fallbacks.values(), *mapped):
            await provider.aclose()


def default_provider() -> MultiProvider:
    """The provider of runs that name none: a new one once the default client or key changed."""
    return _provider_with(defaults.client, defaults.key)


@lru_cache(maxsize=1)
def _provider_with(client: Any, key: str | None) -> MultiProvider:
    return MultiProvider()
