"""Choosing one of several tools with a single token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from ekiden.core.errors import ModelBehaviorError
from ekiden.core.model import ModelRequest, ToolSpec
from ekiden.models.local.generation import Generation
from ekiden.models.local.grammar import one_of
from ekiden.models.local.prompt import choice_messages, short_name

_LOOKED_AT = 100
"""Alternatives of the label whose probability is asked for."""
_LEAST = -30.0
"""The log-probability of a label that is not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The tool that the model finds most fitting."""

    tool: ToolSpec
    probabilities: dict[str, float] | None
    """Of every allowed tool, by name, together 1; `None` when there are too many for one token."""


def labels_of(tools: Sequence[ToolSpec]) -> list[str]:
    """A short mark for every tool: a letter while there are enough of them, else its name."""
    if len(tools) <= len(ascii_uppercase):
        return list(ascii_uppercase[: len(tools)])
    return [short_name(tool.name) for tool in tools]


def choice_body(
    request: ModelRequest, allowed: Sequence[ToolSpec], control_tokens: Sequence[str]
) -> dict[str, Any]:
    """The question to the model: all tools stand in it, only the `allowed` can be answered."""
    labels = labels_of(request.tools)
    names = {tool.name for tool in allowed}
    marks = [label for label, tool in zip(labels, request.tools, strict=True) if tool.name in names]
    messages = choice_messages(request, labels, control_tokens)
    return {
        "messages": [*messages, {"role": "assistant", "content": "Letter:"}],
        "grammar": one_of([f" {mark}" for mark in marks]),
        "cache_prompt": True,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
        "max_tokens": 64,
        "logprobs": True,
        "top_logprobs": _LOOKED_AT,
    }


def choice_of(generation: Generation, request: ModelRequest, allowed: Sequence[ToolSpec]) -> Choice:
    """The tool whose label was written. Raises `ModelBehaviorError` when none was."""
    labels = dict(zip(labels_of(request.tools), request.tools, strict=True))
    tool = labels.get(generation.text.strip())
    if tool is None or tool not in allowed:
        raise ModelBehaviorError(
            f"the model was to choose one of {len(allowed)} tools and wrote {generation.text!r}"
        )
    if len(labels) > len(ascii_uppercase):
        return Choice(tool=tool, probabilities=None)
    return Choice(tool=tool, probabilities=_probabilities(generation, labels, allowed))


def _probabilities(
    generation: Generation, labels: dict[str, ToolSpec], allowed: Sequence[ToolSpec]
) -> dict[str, float]:
    found = {tool.name: _LEAST for tool in allowed}
    for token, logprob in generation.first_alternatives.items():
        tool = labels.get(token.strip())
        if tool is not None and tool.name in found:
            found[tool.name] = max(found[tool.name], logprob)
    top = max(found.values())
    weights = {name: math.exp(logprob - top) for name, logprob in found.items()}
    total = sum(weights.values())
    return {name: round(weight / total, 4) for name, weight in weights.items()}
