"""Choosing one of several tools with as few tokens as possible, and how probable each is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import ModelBehaviorError
from ekiden.core.model import ModelRequest, ToolSpec
from ekiden.models.local.generation import Generation
from ekiden.models.local.grammar import one_of
from ekiden.models.local.prompt import chat_messages
from ekiden.models.local.routing_prompt import routing_prompt, short_name

_LOOKED_AT = 100
"""Alternatives of the first token whose probability is asked for."""
_LEAST = -30.0
"""The log-probability of a name that does not begin with one of them."""
_LONGEST_NAME = 64
_COMMON: dict[str, Any] = {
    "cache_prompt": True,
    "stream_options": {"include_usage": True},
    "temperature": 0,
    "max_tokens": _LONGEST_NAME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The tool that the model finds most fitting."""

    tool: ToolSpec
    probabilities: dict[str, float]
    """Of every allowed tool, by name, together 1.

    They come from the first token of the name: names that begin alike share theirs.
    """


def is_routing(request: ModelRequest) -> bool:
    """Whether every tool only wants a reason, as the transfers of a router do."""
    return len(request.tools) > 1 and all(map(wants_reason_only, request.tools))


def wants_reason_only(tool: ToolSpec) -> bool:
    """Whether the tool needs nothing but a reason in words, as a transfer does."""
    properties = tool.parameters.get("properties") or {}
    reason = properties.get("reason")
    is_text = isinstance(reason, dict) and reason.get("type") == "string" and "enum" not in reason
    return is_text and list(tool.parameters.get("required") or ()) == ["reason"]


def choice_body(
    request: ModelRequest, allowed: Sequence[ToolSpec], control_tokens: Sequence[str]
) -> dict[str, Any]:
    """The question to the model: all tools stand in it, only the `allowed` can be answered.

    For a router it is a text with the examples of the agents, to be completed with a name: small
    models do that far better than they follow instructions.
    """
    if is_routing(request):
        return {
            **_COMMON,
            "prompt": routing_prompt(request, control_tokens),
            "grammar": one_of([f" {short_name(tool.name)}" for tool in allowed]),
            "logprobs": _LOOKED_AT,
        }
    begun = {"role": "assistant", "content": '{"tool": "'}
    return {
        **_COMMON,
        "messages": [*chat_messages(request, control_tokens), begun],
        "grammar": one_of([tool.name for tool in allowed]),
        "chat_template_kwargs": {"enable_thinking": False},
        "logprobs": True,
        "top_logprobs": _LOOKED_AT,
    }


def choice_of(generation: Generation, request: ModelRequest, allowed: Sequence[ToolSpec]) -> Choice:
    """The tool whose name was written. Raises `ModelBehaviorError` when none was."""
    shorten = is_routing(request)
    marks = {short_name(tool.name) if shorten else tool.name: tool for tool in allowed}
    tool = marks.get(generation.text.strip())
    if tool is None:
        raise ModelBehaviorError(
            f"the model was to choose one of {len(allowed)} tools and wrote {generation.text!r}"
        )
    return Choice(tool=tool, probabilities=_probabilities(generation, marks, tool))


def _probabilities(
    generation: Generation, marks: dict[str, ToolSpec], chosen: ToolSpec
) -> dict[str, float]:
    found = dict.fromkeys((tool.name for tool in marks.values()), _LEAST)
    for token, logprob in generation.first_alternatives.items():
        begin = token.strip()
        for mark, tool in marks.items():
            if begin and mark.startswith(begin):
                found[tool.name] = max(found[tool.name], logprob)
    # What was written is at least as probable as everything else, listed or not.
    found[chosen.name] = max(found.values())
    weights = {name: math.exp(logprob - found[chosen.name]) for name, logprob in found.items()}
    total = sum(weights.values())
    return {name: round(weight / total, 4) for name, weight in weights.items()}
