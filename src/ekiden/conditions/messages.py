"""Error messages for conditions that do not parse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ekiden.conditions.tokens import Token

_OPERATOR_WORDS = frozenset({"and", "or", "in"})
_NO_WORDS: Final[Mapping[str, str]] = {
    "is": "write == (and != for 'is not')",
    "if": "there is no if … else in conditions; put and, or between parts",
    "else": "there is no if … else in conditions; put and, or between parts",
    "for": "there are no loops in conditions; write in, contains(…), any_of(…) or all_of(…)",
    "lambda": "there are no functions of one's own in conditions",
    "await": "a condition cannot wait; leave this out",
    "async": "a condition cannot wait; leave this out",
    "yield": "a condition gives one value; leave this out",
    "import": "a condition cannot import anything",
    "eq": "write ==",
    "ne": "write !=",
    "lt": "write <",
    "gt": "write >",
    "xor": "write != between two parts in parentheses",
}
_ASKED_FIRST = frozenset({"if", "else", "for", "is", "lambda", "await", "async", "yield", "import"})
_SPELLED: Final[Mapping[str, str]] = {
    **{word: word for word in ("and", "or", "not", "in", "true", "false", "null")},
    "none": "null",
}


def unexpected(token: Token, before: Token) -> str:
    """Why `token` cannot stand after `before`, where the expression could have ended."""
    if token.kind == "bad":
        return str(token.value)
    if token.kind == "word":
        return _unexpected_word(token.written)
    if token.kind == "number" and token.written.startswith("."):
        return f"write items[{token.written[1:]}] for the item of a list"
    if token.kind in ("number", "text"):
        return "an operator is missing before this, such as == or and"
    if token.written in (")", "]"):
        return f"there is no {'(' if token.written == ')' else '['} for this {token.written}"
    if token.written == ",":
        return "a comma separates the items of a list; put the list into [ ]"
    if token.written == "(":
        return "only functions can be called; an operator is missing before this"
    return f"only fields can be gone into, not into {before.written[:20]}"


def _unexpected_word(word: str) -> str:
    if word in _NO_WORDS:
        return _NO_WORDS[word]
    spelled = _SPELLED.get(word.casefold())
    if word == "not":
        return "write not in, or put and before not"
    if spelled in ("and", "or", "in") and spelled != word:
        return f"write {spelled}"
    return f"an operator is missing before {word[:80]}, such as == or and"


def value_expected(token: Token, before: Token | None) -> str | None:
    """Why no value can begin with `token`, which follows `before`; `None` if one can."""
    if token.kind == "bad":
        return str(token.value)
    if token.kind == "end":
        after = "" if before is None else f" after {before.written[:20]}"
        return f"a value is missing{after}"
    if token.kind == "word":
        return _no_name(token.written)
    if token.written == "+":
        return "leave out the + before a number"
    after = "" if before is None else f" between {before.written[:20]} and {token.written}"
    return f"a value is missing{after or f' before {token.written}'}"


def _no_name(word: str) -> str | None:
    if word in _ASKED_FIRST:
        return _NO_WORDS[word]
    if word == "not":
        return "put parentheses around this: (not x)"
    if word in _OPERATOR_WORDS:
        return f"a value is missing before {word}"
    spelled = _SPELLED.get(word.casefold())
    if spelled is not None and spelled != word:
        return f"write {spelled}"
    return None
