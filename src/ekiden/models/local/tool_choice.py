"""Chooses one of several tools with few tokens, and computes the probability of each.

A router's prompt has hundreds of words of instructions, tools with descriptions, and a quoted
request. On a CPU, a model with one or two billion parameters needs minutes to read this prompt, and
then does not follow it. Such a model is good at continuing a list. Therefore the examples become
lines of a list, and the request becomes the last line::

    Each request goes to one agent.
    billing: invoices and payments
    travel: flights and hotels

    Request: book me a flight to Oslo
    Agent: travel
    Request: the invoice is wrong
    Agent:

The grammar allows only names of agents, so the answer is always one of the agents. All lines except
the last two stay the same and are evaluated once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import ModelRequest, ToolSpec, is_message, text_of
from ekiden.core.errors import ModelBehaviorError
from ekiden.models.local.engine import Generation
from ekiden.models.local.prompt import chat_messages, one_line, one_of, safe

_LOOKED_AT = 100
"""The number of alternatives of the first token that are requested with their probabilities."""
_LEAST = -30.0
"""The log-probability of a name that begins with none of these tokens."""
_LONGEST_NAME = 64
_COMMON: dict[str, Any] = {
    "cache_prompt": True,
    "stream_options": {"include_usage": True},
    "temperature": 0,
    "max_tokens": _LONGEST_NAME,
}

_PREFIX = "transfer_to_"
_ABOUT = "About it: "
"""In the descriptions of a router's tools, the agent's own description follows it as JSON."""
_FENCED = re.compile(r"\s*<request>\s*(?P<json>\".*\")\s*</request>\s*", re.DOTALL)

_EXAMPLE_CHARS = 6_000
"""Maximum length of all examples: more would fill the context and take long to evaluate."""
_ABOUT_CHARS = 200
_LONGEST_EXAMPLE = 160
_LONGEST_REQUEST = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    name: str
    about: str
    examples: tuple[str, ...]


def routing_prompt(request: ModelRequest, control_tokens: Sequence[str] = ()) -> str:
    """Return the prompt. The model must continue it with a space and the name of one of the
    tools."""
    candidates = [_candidate(tool) for tool in request.tools]
    lines = ["Each request goes to one agent."]
    lines += [f"{each.name}: {each.about}" for each in candidates]
    lines.append("")
    for name, example in _examples(candidates):
        lines += [f"Request: {example}", f"Agent: {name}"]
    lines += [f"Request: {one_line(_question(request))[:_LONGEST_REQUEST]}", "Agent:"]
    return safe("\n".join(lines), control_tokens)


def short_name(tool: str) -> str:
    """The target of a transfer tool, or the name of any other tool."""
    return tool.removeprefix(_PREFIX)


def _candidate(tool: ToolSpec) -> _Candidate:
    about, examples = _facts(tool.description)
    return _Candidate(
        name=short_name(tool.name),
        about=one_line(about)[:_ABOUT_CHARS],
        examples=tuple(one_line(each)[:_LONGEST_EXAMPLE] for each in examples),
    )


def _facts(description: str) -> tuple[str, list[str]]:
    """The purpose of an agent, and its examples if a router has added them."""
    _, marked, rest = description.partition(_ABOUT)
    if not marked:
        return description, []
    try:
        facts = json.loads(rest)
    except ValueError:
        return rest, []
    if not isinstance(facts, dict):
        return str(facts), []
    can = [str(each) for each in _listed(facts.get("can"))]
    about = "; ".join(filter(None, [str(facts.get("does") or ""), *can]))
    return about, [str(each) for each in _listed(facts.get("examples"))]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _examples(candidates: Sequence[_Candidate]) -> Iterator[tuple[str, str]]:
    """The first example of every agent, then the second, up to the maximum length."""
    room = _EXAMPLE_CHARS
    longest = max((len(each.examples) for each in candidates), default=0)
    for number in range(longest):
        for each in candidates:
            if number < len(each.examples) and (example := each.examples[number]):
                room -= len(example) + len(each.name)
                if room < 0:
                    return
                yield each.name, example


def _question(request: ModelRequest) -> str:
    """The person's last message, without the fence that a router puts around it."""
    texts = (text_of(item) for item in reversed(request.input) if _is_user(item))
    text = next(texts, "")
    fenced = _FENCED.fullmatch(text)
    if fenced is None:
        return text
    try:
        found = json.loads(fenced["json"])
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def _is_user(item: dict[str, Any]) -> bool:
    return is_message(item) and item.get("role") == "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyTool:
    """The most probable tool."""

    tool: ToolSpec
    probabilities: dict[str, float]
    """The probabilities of all allowed tools, by name. Their sum is 1.

    The probabilities are computed from the first token of each name, so names with the same first
    token have the same probability.
    """


def is_routing(request: ModelRequest) -> bool:
    """Whether every tool needs only a reason, like the transfers of a router."""
    return len(request.tools) > 1 and all(map(wants_reason_only, request.tools))


def wants_reason_only(tool: ToolSpec) -> bool:
    """Whether the tool needs only a reason as text, like a transfer."""
    properties = tool.parameters.get("properties") or {}
    reason = properties.get("reason")
    is_text = isinstance(reason, dict) and reason.get("type") == "string" and "enum" not in reason
    return is_text and list(tool.parameters.get("required") or ()) == ["reason"]


def choice_body(
    request: ModelRequest, allowed: Sequence[ToolSpec], control_tokens: Sequence[str]
) -> dict[str, Any]:
    """Return the request to the model. The request describes all tools, but its grammar allows only
    the `allowed` tools.

    For a router the prompt is `routing_prompt`, because small models complete a list far better
    than they follow instructions.
    """
    if is_routing(request):
        return {
            **_COMMON,
            "prompt": routing_prompt(request, control_tokens),
            "grammar": one_of([f" {short_name(tool.name)}" for tool in allowed]),
            "logprobs": _LOOKED_AT,
        }
    prefill = {"role": "assistant", "content": '{"tool": "'}
    return {
        **_COMMON,
        "messages": [*chat_messages(request, control_tokens), prefill],
        "grammar": one_of([tool.name for tool in allowed]),
        "chat_template_kwargs": {"enable_thinking": False},
        "logprobs": True,
        "top_logprobs": _LOOKED_AT,
    }


def choice_of(
    generation: Generation, request: ModelRequest, allowed: Sequence[ToolSpec]
) -> LikelyTool:
    """Return the tool whose name the model wrote. Raises `ModelBehaviorError` if the model wrote no
    such name."""
    shorten = is_routing(request)
    by_name = {short_name(tool.name) if shorten else tool.name: tool for tool in allowed}
    tool = by_name.get(generation.text.strip())
    if tool is None:
        raise ModelBehaviorError(
            f"the model was to choose one of {len(allowed)} tools and wrote {generation.text!r}"
        )
    return LikelyTool(tool=tool, probabilities=_probabilities(generation, by_name, tool))


def _probabilities(
    generation: Generation, by_name: dict[str, ToolSpec], chosen: ToolSpec
) -> dict[str, float]:
    found = dict.fromkeys((tool.name for tool in by_name.values()), _LEAST)
    for token, logprob in generation.first_alternatives.items():
        begin = token.strip()
        for name, tool in by_name.items():
            if begin and name.startswith(begin):
                found[tool.name] = max(found[tool.name], logprob)
    # At temperature 0 the written name is the most probable one, even if its token is not listed.
    found[chosen.name] = max(found.values())
    weights = {name: math.exp(logprob - found[chosen.name]) for name, logprob in found.items()}
    total = sum(weights.values())
    return {name: round(weight / total, 4) for name, weight in weights.items()}
