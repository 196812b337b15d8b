"""Reading the choice that a model made; nothing in its answer is trusted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ekiden.core.items import Item, is_message, refusal_of, text_of, to_item
from ekiden.core.jsonio import loads
from ekiden.core.model import ModelResponse
from ekiden.routing.wording import plain_line

MAX_REASON_CHARS = 300
_MAX_CONTEXT_CHARS = 2_000
_MAX_ARGUMENTS_CHARS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A tool that was offered, called as it should be."""

    tool: str
    reason: str
    context: str | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Of the offered tools, where the model tells them."""


def read_choice(response: ModelResponse, offered: Collection[str]) -> Choice | str:
    """What the model chose, or as text why that is no choice.

    The first call counts, as it does where an agent asks for several handoffs at once. A call of
    something that was not offered, arguments that are no JSON object and a missing `reason` are no
    choice.
    """
    said: list[str] = []
    for each in response.output:
        item = to_item(each)
        if item.get("type") == "function_call":
            choice = _called(item.get("name"), item.get("arguments"), offered)
            if isinstance(choice, str):
                return choice
            return replace(choice, probabilities=_probabilities(item, offered))
        if is_message(item):
            refusal = refusal_of(item)
            if refusal is not None:
                return f"the model declined to answer: {plain_line(refusal, MAX_REASON_CHARS)}"
            said.append(text_of(item))
    answer = plain_line(" ".join(said), 120)
    if answer:
        return f"the model called no tool, but said {answer!r}"
    return "the model called no tool"


def _called(name: Any, arguments: Any, offered: Collection[str]) -> Choice | str:
    if not isinstance(name, str) or name not in offered:
        return f"the model called {plain_line(str(name), 80)!r}, which it was not offered"
    if isinstance(arguments, str):
        if len(arguments) > _MAX_ARGUMENTS_CHARS:
            return f"the model called {name} with {len(arguments):,} characters of arguments"
        try:
            arguments = loads(arguments)
        except (ValueError, RecursionError):
            return f"the model called {name} with arguments that are not JSON"
    if not isinstance(arguments, dict):
        return f"the model called {name} with arguments that are no JSON object"
    reason, context = arguments.get("reason"), arguments.get("context")
    line = plain_line(reason, MAX_REASON_CHARS) if isinstance(reason, str) else ""
    if not line:
        return f"the model called {name} without the reason that it must give"
    passed_on = context[:_MAX_CONTEXT_CHARS].strip() if isinstance(context, str) else ""
    return Choice(tool=name, reason=line, context=passed_on or None)


def _probabilities(item: Item, offered: Collection[str]) -> dict[str, float]:
    """How probable each tool is, if the model's provider says so in full; otherwise nothing."""
    found: Any = item
    for key in ("provider_details", "details", "probabilities"):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict) or set(found) != set(offered):
        return {}
    if not all(isinstance(each, float | int) and 0 <= each <= 1 for each in found.values()):
        return {}
    return {name: float(each) for name, each in found.items()}
