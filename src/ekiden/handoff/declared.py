"""Handoffs and filters that agent files declare."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.handoffs import DEFAULT_TERMS, Handoff, HandoffTerms, transfer_tool_name
from ekiden.core.text.wording import suggestion
from ekiden.handoff.filters import (
    HandoffFilter,
    compose,
    keep_first_and_last,
    keep_last,
    remove_all_tools,
    shorten_tool_outputs,
)
from ekiden.handoff.tool import handoff


def _redact(*kinds: str) -> HandoffFilter:
    from ekiden.handoff.redaction import redact

    return redact(*kinds)


def _nest_history() -> HandoffFilter:
    from ekiden.handoff.transcript import nest_history

    return nest_history()


def _summarise(**options: int) -> HandoffFilter:
    from ekiden.handoff.summaries import summarise

    return summarise(**options)


def _summarise_with(model: str, **options: Any) -> HandoffFilter:
    from ekiden.handoff.summaries import summarise_with

    return summarise_with(model, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """How a filter is made from the arguments in its text."""

    make: Callable[..., HandoffFilter]
    example: str
    numbers: tuple[str, ...] = ()
    """The names of the numbers, in order."""
    required: int = 0
    """The number of required numbers."""
    words: tuple[int, int] = (0, 0)
    """The minimum and maximum number of words, which come before the numbers."""


_FILTER = re.compile(r"\s*(?P<name>[a-z_]+)\s*(?:\((?P<inside>[^()]*)\))?\s*", re.ASCII)
_NUMBER = re.compile(r"(?:(?P<name>[a-z_]+)\s*=\s*)?(?P<value>[0-9]{1,9})", re.ASCII)
_WORD = re.compile(r"[A-Za-z][\w.:/@+-]{0,199}", re.ASCII)
_MANY = 100
_MAKERS = {
    "keep_first_and_last": _Maker(
        make=keep_first_and_last,
        example="keep_first_and_last(2, 20)",
        numbers=("first", "last"),
        required=2,
    ),
    "keep_last": _Maker(make=keep_last, example="keep_last(20)", numbers=("count",), required=1),
    "nest_history": _Maker(make=_nest_history, example="nest_history"),
    "redact": _Maker(make=_redact, example="redact(card, phone)", words=(0, _MANY)),
    "remove_all_tools": _Maker(make=lambda: remove_all_tools, example="remove_all_tools"),
    "shorten_tool_outputs": _Maker(
        make=shorten_tool_outputs, example="shorten_tool_outputs(500)", numbers=("max_chars",)
    ),
    "summarise": _Maker(
        make=_summarise, example="summarise(10)", numbers=("keep_last", "max_chars")
    ),
    "summarise_with": _Maker(
        make=_summarise_with,
        example="summarise_with(openai:gpt-5-mini, 10)",
        numbers=("keep_last", "max_chars"),
        words=(1, 1),
    ),
}

_FIELDS = {
    "reason": ("string", "Why the conversation is handed over, in one sentence."),
    "context": (["string", "null"], "What the agent needs to know and cannot see."),
    "summary": (["string", "null"], "What was said and done so far, in short."),
}


def declared_handoff(
    target: Agent[Any] | Literal["*"],
    *,
    description: str | None = None,
    include_context: bool = True,
    filters: Sequence[str] = (),
    terms: HandoffTerms = DEFAULT_TERMS,
) -> Handoff[Any, Agent[Any]]:
    """Create a handoff to `target` for an entry of an agent file. Its tool takes a reason, and
    optionally a context and a summary.

    With ``"*"`` the target is the member of the team that best matches the capabilities in `terms`.
    `filters` are built-in filters by name, such as ``keep_last(20)``; they are applied in order.
    Raises `UserError` for an unknown filter.
    """
    plain = _plain(target, terms)
    purpose = plain.tool_description
    return replace(
        plain,
        tool_description=purpose if description is None else f"{purpose} Use it: {description}",
        input_json_schema={
            "type": "object",
            "properties": {
                name: {"type": kind, "description": text} for name, (kind, text) in _FIELDS.items()
            },
            "required": list(_FIELDS),
            "additionalProperties": False,
        },
        input_filter=compose(*map(parse_filter, filters)) if filters else None,
        include_context=include_context,
        terms=terms,
    )


def _plain(target: Agent[Any] | Literal["*"], terms: HandoffTerms) -> Handoff[Any, Agent[Any]]:
    if isinstance(target, str):
        return handoff(target, capabilities=terms.capabilities)
    if not target.traits.is_human:
        return handoff(target)
    role = target.person or target.name
    purpose = f"Hand the conversation over to a person ({role}), who then handles it."
    return handoff(
        target,
        tool_name_override=transfer_tool_name(target.name),
        tool_description_override=" ".join(filter(None, (purpose, target.description))),
    )


def parse_filter(text: str) -> HandoffFilter:
    """The built-in filter that `text` names, such as ``redact(card, phone)``. Raises `UserError`
    for any other text.

    The arguments are separated by commas, with words before numbers. A number may have its
    parameter name, as in ``summarise(keep_last=10, max_chars=3000)``.
    """
    found = _FILTER.fullmatch(text)
    name = (text.partition("(")[0] if found is None else found["name"]).strip()
    maker = _MAKERS.get(name)
    if maker is None:
        raise UserError(
            f"there is no filter {name[:80]!r}, known: {', '.join(_MAKERS)}"
            f"{suggestion(name, _MAKERS)}"
        )
    if found is None:
        raise UserError(
            f"filter {name!r} is written like {maker.example}, not {text.strip()[:80]!r}"
        )
    inside = (found["inside"] or "").strip()
    words, numbers = _read(name, maker, inside.split(",") if inside else [])
    return maker.make(*words, **numbers)


def _read(name: str, maker: _Maker, parts: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """The words and the numbers in a filter's arguments. Raises `UserError`."""
    words: list[str] = []
    numbers: dict[str, int] = {}
    for part in map(str.strip, parts):
        number = _NUMBER.fullmatch(part)
        if number is None and not numbers and len(words) < maker.words[1] and _WORD.fullmatch(part):
            words.append(part)
            continue
        if number is None or not maker.numbers:
            raise UserError(
                f"filter {name!r} takes {_wanted(maker)}, such as {maker.example}, "
                f"not {part[:80]!r}"
            )
        unused = (each for each in maker.numbers if each not in numbers)
        key = number["name"] or next(unused, None)
        if key not in maker.numbers or key in numbers:
            raise UserError(
                f"filter {name!r} takes {_wanted(maker)}, such as {maker.example}; "
                f"{part[:80]!r} is one too many{suggestion(str(key), maker.numbers)}"
            )
        numbers[key] = int(number["value"])
    if len(words) < maker.words[0] or not set(maker.numbers[: maker.required]) <= numbers.keys():
        raise UserError(
            f"filter {name!r} takes {_wanted(maker)}, such as {maker.example}, "
            f"not {len(words) + len(numbers)}"
        )
    return words, numbers


def _wanted(maker: _Maker) -> str:
    """The arguments of a filter, described for an error message."""
    wanted = []
    least, most = maker.words
    if most:
        wanted.append("any number of words" if most == _MANY else f"{least} word")
    if maker.numbers:
        up_to = "" if maker.required == len(maker.numbers) else "up to "
        plural = "" if len(maker.numbers) == 1 else "s"
        wanted.append(f"{up_to}{len(maker.numbers)} number{plural} ({', '.join(maker.numbers)})")
    return f"{' and '.join(wanted)} in brackets" if wanted else "nothing in brackets"
