"""Suggestions for misspelt words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_MAX_WORD = 80
"""Longer words are not typing errors, and comparing them is slow."""
_CUTOFF = 0.72
_SEPARATORS = re.compile(r"[\s_.-]+")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` closest to `word`, or `None` if none is close.

    Case and separators do not count, so that ``handoffDescription`` finds ``handoff_description``;
    otherwise a few letters may differ. Ties go to the first in the alphabet, whatever the order of
    `known`::

        did_you_mean("tirage", ["billing", "triage"])  # "triage"
    """
    if not word or len(word) > _MAX_WORD:
        return None
    of_folded: dict[str, str] = {}
    for name in sorted(known):
        of_folded.setdefault(_folded(name), name)
    folded = _folded(word)
    if folded in of_folded:
        return of_folded[folded]
    near = get_close_matches(folded, of_folded, n=1, cutoff=_CUTOFF)
    return of_folded[near[0]] if near else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a message: ``; did you mean 'triage'?``, or nothing if no word is close."""
    found = did_you_mean(word, known)
    return "" if found is None else f"; did you mean {found!r}?"


def _folded(word: str) -> str:
    return _SEPARATORS.sub("", word).casefold()
