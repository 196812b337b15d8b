"""Choosing one of several tools with as few tokens as possible, and how probable each is.

A router describes the same task to every model: instructions of some hundred words, tools with
descriptions, a request in a fence. A model of one or two billion parameters on a CPU needs minutes
to read that and then does not follow it. What it does well is going on with a list. So its examples
become lines of a list, and the request the last line::

    Each request goes to one agent.
    billing: invoices and payments
    travel: flights and hotels

    Request: book me a flight to Oslo
    Agent: travel
    Request: the invoice is wrong
    Agent:

Only names can follow, so whatever the texts of others say, the answer is one of the agents. All but
the last two lines stays the same and is evaluated once.
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

_PREFIX = "transfer_to_"
_ABOUT = "About it: "
"""What an agent says of itself follows as JSON in a router's tools."""
_FENCED = re.compile(r"\s*<request>\s*(?P<json>\".*\")\s*</request>\s*", re.DOTALL)

_EXAMPLE_CHARS = 6_000
"""Of the examples in all: more would fill the context and take long to read."""
_ABOUT_CHARS = 200
_LONGEST_EXAMPLE = 160
_LONGEST_REQUEST = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    name: str
    about: str
    examples: tuple[str, ...]


def routing_prompt(request: ModelRequest, control_tokens: Sequence[str] = ()) -> str:
    """The text up to where the name of one of the tools has to follow, after a space."""
    candidates = [_candidate(tool) for tool in request.tools]
    lines = ["Each request goes to one agent."]
    lines += [f"{each.name}: {each.about}" for each in candidates]
    lines.append("")
    for name, example in _examples(candidates):
        lines += [f"Request: {example}", f"Agent: {name}"]
    lines += [f"Request: {one_line(_asked(request))[:_LONGEST_REQUEST]}", "Agent:"]
    return safe("\n".join(lines), control_tokens)


def short_name(tool: str) -> str:
    """The target of a transfer; of another tool its name."""
    return tool.removeprefix(_PREFIX)


def _candidate(tool: ToolSpec) -> _Candidate:
    about, examples = _said(tool.description)
    return _Candidate(
        name=short_name(tool.name),
        about=one_line(about)[:_ABOUT_CHARS],
        examples=tuple(one_line(each)[:_LONGEST_EXAMPLE] for each in examples),
    )


def _said(description: str) -> tuple[str, list[str]]:
    """What an agent does, and its examples where a router has added them."""
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
    """The first of every agent, then the second, as far as there is room."""
    room = _EXAMPLE_CHARS
    longest = max((len(each.examples) for each in candidates), default=0)
    for number in range(longest):
        for each in candidates:
            if number < len(each.examples) and (example := each.examples[number]):
                room -= len(example) + len(each.name)
                if room < 0:
                    return
                yield each.name, example


def _asked(request: ModelRequest) -> str:
    """What the person said last, out of the fence that a router puts around it."""
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


def choice_of(
    generation: Generation, request: ModelRequest, allowed: Sequence[ToolSpec]
) -> LikelyTool:
    """The tool whose name was written. Raises `ModelBehaviorError` when none was."""
    shorten = is_routing(request)
    marks = {short_name(tool.name) if shorten else tool.name: tool for tool in allowed}
    tool = marks.get(generation.text.strip())
    if tool is None:
        raise ModelBehaviorError(
            f"the model was to choose one of {len(allowed)} tools and wrote {generation.text!r}"
        )
    return LikelyTool(tool=tool, probabilities=_probabilities(generation, marks, tool))


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
