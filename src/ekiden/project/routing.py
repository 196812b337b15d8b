"""Finds the recipient of a message: by ``@name``, by the router, or by capability."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ekiden.capabilities import CapabilityMatcher, Match
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.text.wording import lazy_pattern, suggestion
from ekiden.routing.decision import STRATEGIES, RouteDecision, Strategy

if TYPE_CHECKING:
    from ekiden.core.roles import RouteCause
    from ekiden.project.project import Project

AUTO = "auto"

_MENTION = re.compile(
    r"\s*[@＠](?:[\"“](?P<quoted>[^\"“”\n]+)[\"”]|(?P<name>[^\s@＠,，:：;；\"“”]+))"
    r"[,，:：]?(?:\s+|(?=[\"“])|$)"
)
_OPTION = lazy_pattern(r"--(?P<name>[\w-]*)(?:=(?P<value>\S*))?(?:\s+|(?=[\"“])|$)")
_QUOTES = {'"': '"', "“": "”"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedMessage:
    """A message with its recipient."""

    text: str
    to: str | None = None
    """The name of an agent, or `AUTO`; `None` if the message names no recipient."""
    strategy: Strategy | None = None
    """The strategy in ``@auto --strategy=…``."""


def parse_address(text: str) -> AddressedMessage:
    """Split ``@name``, or ``@auto`` with its options, from the text.

    The mention must be at the beginning. Any other ``@`` is part of the text, and ``\\@`` at the
    beginning means a plain ``@``. A name with a space needs quotation marks, and ``@auto`` may be
    in upper case. Quotation marks around the whole text after the mention are removed. Raises
    `UserError` for an unknown option or strategy::

        parse_address('@auto --strategy=rule "why does it crash?"')
    """
    if text.startswith("\\@"):
        return AddressedMessage(text=text[1:])
    mention = _MENTION.match(text)
    if mention is None:
        return AddressedMessage(text=text)
    written = mention["quoted"] or mention["name"]
    name = AUTO if written.casefold() == AUTO else written
    rest = text[mention.end() :]
    strategy: Strategy | None = None
    while rest.startswith("--") and name == AUTO:
        strategy, rest = _option(rest)
    return AddressedMessage(text=_unquoted(rest.strip()), to=name, strategy=strategy)


def check_strategy(value: str) -> Strategy:
    """Return `value` as a strategy. Raises `UserError` for an unknown strategy."""
    for known in STRATEGIES:
        if value == known:
            return known
    raise UserError(
        f"there is no strategy {value[:80]!r}, choose one of {', '.join(STRATEGIES)}"
        f"{suggestion(value, STRATEGIES)}"
    )


def _option(rest: str) -> tuple[Strategy, str]:
    found = _OPTION.match(rest)
    if found is None or found["name"] != "strategy":
        shown = rest.split(maxsplit=1)[0]
        raise UserError(f"@auto has no option {shown[:80]!r}; it takes --strategy=NAME")
    if found["value"] is not None:
        return check_strategy(found["value"]), rest[found.end() :]
    value, after = [*rest[found.end() :].split(maxsplit=1), "", ""][:2]
    return check_strategy(value), after


def _unquoted(text: str) -> str:
    closing = _QUOTES.get(text[:1])
    inner = text[1:-1]
    if len(text) > 1 and closing and text.endswith(closing) and closing not in inner:
        return inner
    return text


async def decide(project: Project, address: AddressedMessage, *, limit: int = 20) -> RouteDecision:
    """Return the routing analysis of a request, with at most `limit` candidates. Raises
    `UnknownAgent` for an unknown name."""
    if address.to is None or address.to == AUTO:
        cause: RouteCause = "asked" if address.to == AUTO else "new"
        return await project.router.route(
            address.text, strategy=address.strategy, cause=cause, limit=limit
        )
    return project.router.named(address.to)


def parse_names(words: Iterable[str]) -> list[str]:
    """The names in `words`. A word may contain several names, separated by ASCII or Chinese
    commas."""
    commas = str.maketrans("，、", ",,")
    split = (name.strip() for word in words for name in word.translate(commas).split(","))
    return [name for name in split if name]


def capable(project: Project, required: Sequence[str], *, exclude: Iterable[str]) -> list[Match]:
    """All agents except `exclude`, best match first, including agents without a match.

    Raises `UnknownAgent` for an unknown name in `exclude`.
    """
    from ekiden.embeddings.local import local_embedder

    excluded = [project.team[name.removeprefix("@")].name for name in exclude]
    matcher = CapabilityMatcher.of(project.agents.values(), embedder=local_embedder())
    return matcher.find(required, exclude=excluded, min_score=0)
