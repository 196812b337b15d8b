"""Texts: suggestions for misspelt names, valid Unicode, and patterns of `triggers`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from ekiden.core.text.patterns import lazy_pattern

_MAX_MEMORY = 256 * 1024
"""Bytes for one compiled pattern; a thousand agents with ten each must fit into a process."""

_ADVICE = (
    (("(?=", "(?!", "(?<=", "(?<!"), "look-around is not supported; match the text itself"),
    (
        ("(?P=", "\\1", "\\2", "\\3", "\\4", "\\5", "\\6", "\\7", "\\8", "\\9"),
        "back-references are not supported; write the alternatives out: (aa|bb)",
    ),
    (("(?>", "++", "*+", "?+"), "atomic groups and possessive repeats are not supported"),
    (("(?#", "(?x"), "comments and the x flag are not supported; leave them out"),
    (("\\Z",), "write \\z for the end of the text"),
    (("\\u",), "write the character itself, or \\x{4e00}"),
    (("(?P",), "a named group is written (?P<name>…)"),
)


@lru_cache(maxsize=20_000)
def pattern_fault(pattern: str) -> str | None:
    """Why `pattern` is refused, with the way out; `None` if it is valid.

    Patterns use RE2: matching takes linear time, for any pattern.
    """
    import re2

    try:
        re2.compile(pattern, _options())
    except re2.error as exc:
        said = exc.args[0] if exc.args else exc
        return _advice(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said))
    return None


def matches_everything(pattern: str) -> bool:
    """Whether a valid pattern matches even an empty text."""
    import re2

    return bool(re2.compile(pattern, _options()).search(""))


def _advice(said: str) -> str:
    if "too large" in said or "repetition size" in said:
        return (
            "it would take too much memory, as it repeats too much; count less: {2,20} instead "
            "of {2,2000}, and no counted repeat within another"
        )
    for signs, advice in _ADVICE:
        if any(sign in said for sign in signs):
            return advice
    return f"it does not compile ({said[:80]}); see RE2's syntax, and write \\ before ( [ * + ? ."


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    return options


_MAX_WORD = 80
"""Longer words are not typing errors, and comparing them is slow."""
_CUTOFF = 0.72
_SEPARATORS = lazy_pattern(r"[\s_.-]+")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` closest to `word`, or `None` if none is close.

    Case and separators do not count, so that ``handoffDescription`` finds ``handoff_description``;
    otherwise a few letters may differ. Ties go to the first in the alphabet, whatever the order of
    `known`::

        did_you_mean("tirage", ["billing", "triage"])  # "triage"
    """
    return next(iter(closest(word, known)), None)


def closest(word: str, known: Iterable[str], *, count: int = 1) -> list[str]:
    """At most `count` words of `known` that are close to `word`, the closest first, compared like
    in `did_you_mean`."""
    if not word or len(word) > _MAX_WORD:
        return []
    of_folded: dict[str, str] = {}
    for name in sorted(known):
        of_folded.setdefault(_folded(name), name)
    folded = _folded(word)
    if folded in of_folded:
        return [of_folded[folded]]
    from difflib import get_close_matches

    return [of_folded[each] for each in get_close_matches(folded, of_folded, count, _CUTOFF)]


def suggestion(word: str, known: Iterable[str]) -> str:
    """A suggestion for the end of a message, such as ``; did you mean 'triage'?``. Empty if no
    known word is similar."""
    found = did_you_mean(word, known)
    return "" if found is None else f"; did you mean {found!r}?"


def _folded(word: str) -> str:
    return _SEPARATORS.sub("", word).casefold()


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
