"""Reading whom a message is for: ``@auto …``, ``@name …``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ekiden.core.errors import UserError
from ekiden.core.suggest import suggestion
from ekiden.routing.decision import STRATEGIES, Strategy

AUTO = "auto"

_MENTION = re.compile(r"\s*[@＠](?P<name>[^\s@＠,，:：;；\"“”]+)[,，:：]?(?:\s+|(?=[\"“])|$)")
_OPTION = re.compile(r"--(?P<name>[\w-]*)(?:=(?P<value>\S*))?(?:\s+|(?=[\"“])|$)")
_QUOTES = {'"': '"', "“": "”"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedMessage:
    """A message and whom it is for."""

    text: str
    to: str | None = None
    """An agent's name, `AUTO`, or `None` where nobody is named."""
    strategy: Strategy | None = None
    """Of ``@auto --strategy=…``."""


def parse_address(text: str) -> AddressedMessage:
    """Split ``@name``, ``@auto`` and its options from what is said.

    ``@auto`` is read in upper case too. Only at the very beginning: an ``@`` elsewhere is part of
    the text, and so is ``\\@`` at the beginning, without its backslash. Quotation marks around all
    of the rest are taken off.
    `UserError` for an option that does not exist, or a strategy that does not::

        parse_address('@auto --strategy=rule "why does it crash?"')
    """
    if text.startswith("\\@"):
        return AddressedMessage(text=text[1:])
    mention = _MENTION.match(text)
    if mention is None:
        return AddressedMessage(text=text)
    name = AUTO if mention["name"].casefold() == AUTO else mention["name"]
    rest = text[mention.end() :]
    strategy: Strategy | None = None
    while rest.startswith("--") and name == AUTO:
        strategy, rest = _option(rest)
    return AddressedMessage(text=_unquoted(rest.strip()), to=name, strategy=strategy)


def check_strategy(value: str) -> Strategy:
    """`value` as a strategy; `UserError` with those there are."""
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
