"""Text helpers: lazy patterns, patterns of `triggers`, suggestions for misspelt names, Unicode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, cast


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, but compile at the first use. Compiling all patterns of the runtime takes
    a tenth of its import time, and a run needs few of them."""
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        """Called at the first use of a method, which is then stored for the next call."""
        if name.startswith("_"):  # `copy` and `pickle` ask for these before `_text` is set.
            raise AttributeError(name)
        method = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, method)
        return method


_MAX_MEMORY = 256 * 1024
"""Bytes for one compiled pattern. A process must have room for a thousand agents with ten each."""

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
    """Why a pattern of `triggers` is refused, with advice; `None` if the pattern is valid.

    The patterns use RE2, so that matching takes linear time for every pattern.
    """
    import re2

    try:
        re2.compile(pattern, _options())
    except re2.error as exc:
        error = exc.args[0] if exc.args else exc
        return _advice(error.decode("utf-8", "replace") if isinstance(error, bytes) else str(error))
    return None


def matches_everything(pattern: str) -> bool:
    """Whether a valid pattern matches every text, even an empty one."""
    import re2

    return bool(re2.compile(pattern, _options()).search(""))


def _advice(error: str) -> str:
    if "too large" in error or "repetition size" in error:
        return (
            "it would take too much memory, as it repeats too much; count less: {2,20} instead "
            "of {2,2000}, and no counted repeat within another"
        )
    for signs, advice in _ADVICE:
        if any(sign in error for sign in signs):
            return advice
    return f"it does not compile ({error[:80]}); see RE2's syntax, and write \\ before ( [ * + ? ."


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
"""Longer words get no suggestion: comparing them is slow."""
_CUTOFF = 0.72
_SEPARATORS = lazy_pattern(r"[\s_.-]+")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` closest to `word`, or `None` if none is close.

    Case and separators are ignored, so ``handoffDescription`` finds ``handoff_description``. A few
    letters may differ. Among equally close words, the first in the alphabet is returned::

        did_you_mean("tirage", ["billing", "triage"])  # "triage"
    """
    return next(iter(closest(word, known)), None)


def closest(word: str, known: Iterable[str], *, count: int = 1) -> list[str]:
    """Return at most `count` words of `known` that are similar to `word`, most similar first.
    `did_you_mean` defines the similarity."""
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
    """Whether the text can be encoded as UTF-8. A text with a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
