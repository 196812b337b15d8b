"""Names of agents in files and imports; in Python any line of text that is not reserved."""

from __future__ import annotations

import re
import unicodedata

RESERVED = frozenset({"auto", "user"})
"""Names that mean something else: routing, the person."""
TAKEN = f"this name is taken by Ekiden itself ({', '.join(sorted(RESERVED))}); use another"
MAX_NAME = 100

_ASCII_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_DIGITS_AND_LETTERS = ("L", "N")
_IN_NAMES = ("L", "N", "M")


def name_fault(name: str) -> str | None:
    """What is wrong with the name of an agent file, and what to write instead; `None` if valid.

    Such names have letters and digits of any script, ``-`` and ``_``, as ``@name`` reads them.
    """
    if name.casefold() in RESERVED:
        return TAKEN
    if len(name) > MAX_NAME:
        return f"use at most {MAX_NAME} characters; it has {len(name)}"
    if _ASCII_NAME.fullmatch(name) or is_slug(name):
        return None
    slug = slug_of(name)
    usable = slug and slug not in RESERVED and is_slug(slug)
    advice = f", such as {slug}" if usable else ""
    return f"use letters, digits, - and _ only, and begin with a letter or digit{advice}"


def slug_of(text: str) -> str:
    """The text as a name; may be empty, or reserved."""
    letters = unicodedata.normalize("NFC", text).lower()
    kept = "".join(each if _fits(each) else " " for each in letters)
    return "-".join(kept.split()).strip("-_")[:MAX_NAME].rstrip("-_")


def is_slug(name: str) -> bool:
    """Whether it has the characters of a name; reserved names do, too."""
    first = unicodedata.category(name[0])[0]
    return first in _DIGITS_AND_LETTERS and all(_fits(each) for each in name)


def _fits(character: str) -> bool:
    return character in "-_" or unicodedata.category(character)[0] in _IN_NAMES
