"""Models and their providers."""

from ekiden.compat.agents.models.default_models import (
    get_default_model as get_default_model,
    get_default_model_settings as get_default_model_settings,
    gpt_5_reasoning_settings_required as gpt_5_reasoning_settings_required,
    is_gpt_5_default as is_gpt_5_default,
)
from ekiden.compat.agents.models.interface import (
    Model as Model,
    ModelProvider as ModelProvider,
    ModelTracing as ModelTracing,
)
from ekiden.compat.agents.models.openai_agent_registration import (
    OpenAIAgentRegistrationConfig as OpenAIAgentRegistrationConfig,
)
from ekiden.compat.agents.not_supported import names_of

__all__ = names_of(__name__)
