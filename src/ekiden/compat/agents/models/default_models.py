"""The default model and its settings."""

from __future__ import annotations

import os
import re
from typing import Literal, TypeAlias

from openai.types.shared import Reasoning

from ekiden.compat.agents.model_settings import ModelSettings
from ekiden.compat.agents.not_supported import placeholders

OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME = "OPENAI_DEFAULT_MODEL"
_CHAT = re.compile(r"gpt-5(\.[123])?-chat-latest")
_EFFORTS = (
    (re.compile(r"gpt-5(-\d{4}-\d\d-\d\d)?|gpt-5\.2-codex"), "low"),
    (re.compile(r"gpt-5\.[24]-pro(-\d{4}-\d\d-\d\d)?"), "medium"),
    (
        re.compile(
            r"gpt-5\.([12456]|4-mini|4-nano|6-sol|6-terra|6-luna)(-\d{4}-\d\d-\d\d)?"
            r"|gpt-5\.3-codex"
        ),
        "none",
    ),
)


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Whether the model is a GPT-5 model with a reasoning effort."""
    return model_name.startswith("gpt-5") and not _CHAT.fullmatch(model_name)


def get_default_model() -> str:
    """The model of agents without a model: ``OPENAI_DEFAULT_MODEL``, or the default of the SDK."""
    return os.getenv(OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME, "gpt-5.6-luna").lower()


def is_gpt_5_default() -> bool:
    """Whether the default model is a GPT-5 model."""
    return gpt_5_reasoning_settings_required(get_default_model())


def get_default_model_settings(model: str | None = None) -> ModelSettings:
    """The default settings for the model."""
    name = get_default_model() if model is None else model
    if not gpt_5_reasoning_settings_required(name):
        return ModelSettings()
    for pattern, effort in _EFFORTS:
        if pattern.fullmatch(name):
            return ModelSettings(reasoning=Reasoning(effort=effort), verbosity="low")  # type: ignore[arg-type]
    return ModelSettings(verbosity="low")


GPT5DefaultReasoningEffort: TypeAlias = Literal["none", "low", "medium"]

__getattr__ = placeholders(__name__)
