"""Which member a piece of text speaks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.core.plan import Member
from ekiden.core.text.folding import folded, marked

if TYPE_CHECKING:
    from ekiden.agents.pattern_set import PatternSet

_KEYWORD = 10
_PATTERN = 20
_NAME = 5


class MemberMatcher:
    """Finds the member whose keywords and patterns speak most for it, as `rule` routing does.

    A pattern that matches is worth 20, a keyword 10, the member's name or that of a capability 5;
    of equal ones the first member is meant. Keywords are found without regard to case, white space
    and compatibility forms; those in scripts with spaces as whole words, others anywhere. The name
    of the fallback does not count: it gets what is left anyway.

    `UserError` for a pattern that cannot be used.
    """

    def __init__(self, members: Sequence[Member], *, fallback: str) -> None:
        self._members = members
        self._words = [_words(member, is_fallback=member.name == fallback) for member in members]
        owners = [(place, each) for place, m in enumerate(members) for each in m.patterns]
        self._owners = [place for place, _ in owners]
        self._patterns = _compiled([pattern for _, pattern in owners])

    def best(self, text: str) -> str | None:
        """The member that `text` is for; `None` if nothing speaks for anybody."""
        look = marked(folded(text))
        points = [
            sum(worth for word, worth in words.items() if word in look) for words in self._words
        ]
        for hit in () if self._patterns is None else self._patterns.matches(text):
            points[self._owners[hit]] += _PATTERN
        top = max(points, default=0)
        return self._members[points.index(top)].name if top else None


def _compiled(patterns: Sequence[str]) -> PatternSet | None:
    if not patterns:
        return None
    from ekiden.agents.pattern_set import PatternSet

    return PatternSet(patterns)


def _words(member: Member, *, is_fallback: bool) -> dict[str, int]:
    names = [] if is_fallback else [member.name.replace("_", " ").replace("-", " "), member.name]
    names += [each.partition(":")[0] for each in member.capabilities]
    found = {marked(folded(name)): _NAME for name in names}
    found |= {marked(folded(word)): _KEYWORD for word in member.keywords}
    found.pop("", None)
    return found
