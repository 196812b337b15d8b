"""Models and their providers."""

from ekiden.compat.agents.models.default_models import (
    get_default_model,
    get_default_model_settings,
    gpt_5_reasoning_settings_required,
    is_gpt_5_default,
)
from ekiden.compat.agents.models.interface import Model, ModelProvider, ModelTracing
from ekiden.compat.agents.models.openai_agent_registration import OpenAIAgentRegistrationConfig

__all__ = [
    "Model",
    "ModelProvider",
    "ModelTracing",
    "OpenAIAgentRegistrationConfig",
    "get_default_model",
    "get_default_model_settings",
    "gpt_5_reasoning_settings_required",
    "is_gpt_5_default",
]
