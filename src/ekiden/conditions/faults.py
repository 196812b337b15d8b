"""Errors in conditions, shown with a caret under the fault."""

from __future__ import annotations

from unicodedata import category, east_asian_width

from ekiden.core.errors import ConditionError

_INDENT = "    "
_BEFORE = 48
_AFTER = 24
"""So many characters of a long condition are shown on either side of the fault."""


def fault(text: str, position: int, problem: str) -> ConditionError:
    """The error for what is wrong at `position` of `text`; `problem` names the way out."""
    return ConditionError(problem, text=text, position=position, excerpt=_excerpt(text, position))


def _excerpt(text: str, position: int) -> str:
    """The line of the fault, and below it a caret that stands under it on a terminal."""
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    first, last = max(begin, position - _BEFORE), min(end, position + _AFTER)
    before = ("…" if first > begin else "") + _printable(text[first:position])
    after = _printable(text[position:last]) + ("…" if last < end else "")
    return f"{_INDENT}{before}{after}\n{_INDENT}{' ' * _width(before)}^"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else _stand_in(each) for each in text)


def _stand_in(character: str) -> str:
    return " " if character.isspace() else "\ufffd"


def _width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    return sum(_columns(each) for each in text)


def _columns(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1
