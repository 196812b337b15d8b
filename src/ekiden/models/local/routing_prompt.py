"""A router's question as a text to be completed: who takes this request?

A router describes the same task to every model: instructions of some hundred words, tools with
descriptions, a request in a fence. A model of one or two billion parameters on a CPU needs minutes
to read that and then does not follow it. What it does well is going on with a list. So its
examples become lines of a list, and the request the last line::

    Each request goes to one agent.
    billing: invoices and payments
    travel: flights and hotels

    Request: book me a flight to Oslo
    Agent: travel
    Request: the invoice is wrong
    Agent:

Only names can follow, so whatever the texts of others say, the answer is one of the agents. All
but the last two lines stays the same and is evaluated once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.items import is_message, text_of
from ekiden.core.model import ModelRequest, ToolSpec
from ekiden.models.local.prompt import one_line, safe

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
