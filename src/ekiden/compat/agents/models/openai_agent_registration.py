"""The id under which OpenAI knows a harness of agents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

OPENAI_HARNESS_ID_TRACE_METADATA_KEY = "agent_harness_id"
_VARIABLE = "OPENAI_AGENT_HARNESS_ID"


@dataclass(frozen=True)
class OpenAIAgentRegistrationConfig:
    """The id for the registration of agents with OpenAI."""

    harness_id: str | None


@dataclass(frozen=True)
class ResolvedOpenAIAgentRegistrationConfig:
    """The id that is used."""

    harness_id: str


_default: OpenAIAgentRegistrationConfig | None = None


def _read(
    config: OpenAIAgentRegistrationConfig | dict[str, Any] | None,
) -> OpenAIAgentRegistrationConfig | None:
    return OpenAIAgentRegistrationConfig(**config) if isinstance(config, dict) else config


def set_default_openai_agent_registration_config(
    config: OpenAIAgentRegistrationConfig | dict[str, Any] | None,
) -> None:
    """Use this id where no other is given; `None` forgets it."""
    global _default
    _default = _read(config)


def get_default_openai_agent_registration_config() -> OpenAIAgentRegistrationConfig | None:
    """The default, if there is one."""
    return _default


def resolve_openai_agent_registration_config(
    config: OpenAIAgentRegistrationConfig | dict[str, Any] | None,
) -> ResolvedOpenAIAgentRegistrationConfig | None:
    """The given id, else the default, else ``OPENAI_AGENT_HARNESS_ID``."""
    given = [each.harness_id for each in (_read(config), _default) if each is not None]
    for found in (*given, os.getenv(_VARIABLE)):
        if found and found.strip():
            return ResolvedOpenAIAgentRegistrationConfig(harness_id=found.strip())
    return None


def resolve_openai_harness_id_for_model_provider(model_provider: Any) -> str | None:
    """The id of a provider of OpenAI's models."""
    provider = getattr(model_provider, "openai_provider", model_provider)
    found = getattr(provider, "agent_registration", None)
    return None if found is None else str(found.harness_id)


def add_openai_harness_id_to_metadata(
    metadata: dict[str, Any] | None, *, model_provider: Any
) -> dict[str, Any] | None:
    """The metadata of a trace with the id, if there is one."""
    found = resolve_openai_harness_id_for_model_provider(model_provider)
    if found is None or OPENAI_HARNESS_ID_TRACE_METADATA_KEY in (metadata or {}):
        return metadata
    return {**(metadata or {}), OPENAI_HARNESS_ID_TRACE_METADATA_KEY: found}
