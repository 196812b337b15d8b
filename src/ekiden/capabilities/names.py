"""Names of capabilities, made comparable.

Case, full-width and other compatibility forms, and the kind and number of spaces, underscores and
hyphens do not count: ``Code-Review``, ``code_review`` and ``ＣＯＤＥ　ＲＥＶＩＥＷ`` are
one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar
from unicodedata import normalize

from ekiden.core.errors import UserError

T = TypeVar("T")

TAG = "tag:"
"""Before a required name: only a tag of that name will do."""

_LONG = 1_000
"""Of a longer name the form is not looked at: normalising takes time with the square of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One thing that is required."""

    text: str
    """As it was asked for."""
    key: str
    """The folded name, or the folded tag."""
    tag_only: bool = False


def requirements(required: Iterable[str]) -> tuple[Requirement, ...]:
    """What is required, in the order asked, each once.

    `UserError` for something that is no name, and for one text where several belong.
    """
    found: dict[tuple[str, bool], Requirement] = {}
    for name in several(required, "required capabilities"):
        each = _requirement(name)
        found.setdefault((each.key, each.tag_only), each)
    return tuple(found.values())


def several(given: Iterable[T], what: str) -> Iterable[T]:
    """`given` as it is; `UserError` for a single text, which would be taken letter by letter."""
    if isinstance(given, str):
        raise UserError(f"{what} are a list of names, not one text: write [{given!r:.80}]")
    return given


def folded(name: str) -> str:
    """The form in which names and tags are compared; it is empty only for an empty text."""
    if name.isascii():
        plain = name.lower()
    elif len(name) > _LONG:
        plain = name.casefold()
    else:
        plain = normalize("NFKC", normalize("NFKC", name).casefold())
    return _separators().sub(" ", plain).strip() or name.strip()


def checked(name: object, what: str) -> str:
    """The folded form; `UserError` for what is not a text or is empty."""
    key = folded(name) if isinstance(name, str) else ""
    if not key:
        raise UserError(f"{what} is a text that is not empty, not {name!r:.80}")
    return key


def _requirement(name: str) -> Requirement:
    key = checked(name, "a required capability")
    if not key.startswith(TAG):
        return Requirement(text=name.strip(), key=key)
    tag = checked(key.removeprefix(TAG), f"what follows {TAG!r} in a required capability")
    return Requirement(text=name.strip(), key=tag, tag_only=True)


@cache
def _separators() -> re.Pattern[str]:
    return re.compile(r"[\s_\-\u2010-\u2015\u2212]+")
