"""Whether a provider of Chat Completions wants its reasoning back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass
class ReasoningContentSource:
    """The reasoning, and the model it came from."""

    item: Any
    origin_model: str | None
    provider_data: Mapping[str, Any]


@dataclass
class ReasoningContentReplayContext:
    """The request that the reasoning would be part of."""

    model: str
    base_url: str | None
    reasoning: ReasoningContentSource


ShouldReplayReasoningContent: TypeAlias = Callable[[ReasoningContentReplayContext], bool]


def default_should_replay_reasoning_content(context: ReasoningContentReplayContext) -> bool:
    """DeepSeek's models want the reasoning that they gave themselves."""
    if "deepseek" not in context.model.lower():
        return False
    origin = context.reasoning.origin_model
    return origin is None or "deepseek" in origin.lower()
