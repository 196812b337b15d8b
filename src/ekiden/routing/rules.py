"""The `rule` stage: keywords and patterns, weighed by priority."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from time import perf_counter
from typing import Any, TypeAlias

from ahocorasick_rs import AhoCorasick

from ekiden.agents.pattern_set import PatternSet, fault_of
from ekiden.core.agent import Agent
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.text.keywords import folded, marked, opening, stem
from ekiden.routing.decision import Score, StageResult

MAX_CHARS = 20_000
"""The number of characters of a text that are searched."""

_KEYWORD = 10
_PATTERN = 20

_RIGHT_BY_LEAD = (26, 85, 99, 99)
"""The percentage of correct choices if the best agent leads by 0, 1, 2, 3 or more keywords.

Measured by ``benchmarks/routing_calibration.py`` on the validation parts of CLINC150 and xSID, in
English and Chinese, with 5 to 20 keywords per agent from the training parts, teams of 5 to 150
agents, and one request in ten that fits no agent.
"""

_Owners: TypeAlias = dict[str, tuple[int, str]]
"""The agents that have a keyword or pattern, each with its position in the agent's list and its
spelling there."""


@dataclass(slots=True)
class _Hits:
    """The matches of one agent, each with its position in the agent's list."""

    keywords: list[tuple[int, str]] = field(default_factory=list)
    patterns: list[tuple[int, str]] = field(default_factory=list)


class RuleStage:
    """Finds the agent whose keywords and patterns match best.

    Each matching keyword counts 10 points and each matching pattern 20 points, once. The score is
    the sum times priority/100, rounded half up. Of agents with the same score, the one with the
    higher priority wins, then the one with more patterns, then the first name. The confidence is
    the measured share of correct choices with the same lead over the second agent
    (`_RIGHT_BY_LEAD`). Keywords match regardless of case, white space and compatibility forms. In
    scripts with spaces, keywords match whole words in any inflected form
    (`ekiden.core.text.wording`). In Han, kana, Hangul, Thai and similar scripts they match
    anywhere.

    Keywords and patterns are compiled once. One pass over the text finds all keywords, and a second
    pass finds all patterns. Raises `UserError` for an invalid pattern or priority.
    """

    __slots__ = ("_automaton", "_keywords", "_patterns", "_priorities", "_set", "_threshold")

    def __init__(self, agents: Iterable[Agent[Any]], *, threshold: int = 80) -> None:
        """System agents are left out. A choice is `sure` at a confidence of `threshold` or more."""
        chosen = [agent for agent in agents if agent.scope != "system"]
        self._threshold = threshold
        self._priorities = {agent.name: agent.triggers.priority for agent in chosen}
        keywords: dict[str, _Owners] = {}
        patterns: dict[str, _Owners] = {}
        for agent in chosen:
            for place in enumerate(agent.triggers.keywords):
                keyword = marked(folded(place[1]), stem)
                if keyword:
                    keywords.setdefault(keyword, {}).setdefault(agent.name, place)
            for place in enumerate(agent.triggers.patterns):
                patterns.setdefault(place[1], {}).setdefault(agent.name, place)
        self._keywords = [tuple(owners.items()) for owners in keywords.values()]
        """The owners of each keyword, by its position in the automaton."""
        self._patterns = [tuple(owners.items()) for owners in patterns.values()]
        self._automaton = AhoCorasick(list(keywords), store_patterns=False) if keywords else None
        self._set = _pattern_set(patterns)

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """Choose the best match. Every agent with a score is a candidate."""
        began = perf_counter()
        seen = opening(text, MAX_CHARS)
        scores = self.scores(seen, excluded=excluded)
        best = scores[0] if scores else None
        reason = "no keyword or pattern matches" if best is None else self._reason(best)
        if len(seen) < len(text):
            reason += f"; only the first {MAX_CHARS:,} of {len(text):,} characters were checked"
        return StageResult(
            method="rule",
            agent=best.agent if best else None,
            confidence=best.confidence if best else 0,
            sure=best is not None and best.confidence >= self._threshold,
            reason=reason,
            candidates=tuple(scores),
            elapsed_ms=(perf_counter() - began) * 1e3,
        )

    def scores(self, text: str, *, excluded: Collection[str] = ()) -> list[Score]:
        """The agents with a score above 0, best first."""
        found = [
            self._score(name, hits)
            for name, hits in self._hits(text).items()
            if name not in excluded
        ]
        matched = [score for score in found if score.score > 0]
        priorities = self._priorities
        matched.sort(
            key=lambda each: (-each.score, -priorities[each.agent], -len(each.patterns), each.agent)
        )
        return _with_confidence(matched)

    def _hits(self, text: str) -> Mapping[str, _Hits]:
        hits: dict[str, _Hits] = {}
        if self._automaton is not None:
            found = self._automaton.find_matches_as_indexes(
                marked(folded(text), stem), overlapping=True
            )
            for index in {match[0] for match in found}:
                for name, place in self._keywords[index]:
                    hits.setdefault(name, _Hits()).keywords.append(place)
        for index in self._set.matches(text):
            for name, place in self._patterns[index]:
                hits.setdefault(name, _Hits()).patterns.append(place)
        return hits

    def _score(self, name: str, hits: _Hits) -> Score:
        points = _KEYWORD * len(hits.keywords) + _PATTERN * len(hits.patterns)
        score = (points * self._priorities[name] + 50) // 100
        return Score(
            agent=name,
            score=score,
            confidence=0,
            keywords=_in_order(hits.keywords),
            patterns=_in_order(hits.patterns),
        )

    def _reason(self, best: Score) -> str:
        points = _KEYWORD * len(best.keywords) + _PATTERN * len(best.patterns)
        parts = (("keyword", best.keywords), ("pattern", best.patterns))
        listed = " and ".join(_listed(kind, words) for kind, words in parts if words)
        priority = self._priorities[best.agent]
        return f"{best.agent}: {listed}, score {points} × {priority} % = {best.score:g}"


def _with_confidence(ranked: Sequence[Score]) -> list[Score]:
    """The scores with their confidences: the measured percentage of correct choices.

    The lead is counted in the best agent's keywords, not in points: priorities compare agents and
    do not change how much a keyword tells. The rest to 100 is divided among the other agents in
    proportion to their scores.
    """
    if not ranked:
        return []
    best, *others = ranked
    second = others[0].score / best.score if others else 0.0
    keywords = len(best.keywords) + len(best.patterns) * _PATTERN / _KEYWORD
    right = _right_by_lead(keywords * (1 - second))
    total = sum(other.score for other in others)
    return [
        replace(best, confidence=round(right)),
        *(
            replace(other, confidence=round(min(right, (100 - right) * other.score / total)))
            for other in others
        ),
    ]


def _right_by_lead(lead: float) -> float:
    """The measured percentage, interpolated linearly."""
    keywords = int(lead)
    if keywords >= len(_RIGHT_BY_LEAD) - 1:
        return _RIGHT_BY_LEAD[-1]
    least, most = _RIGHT_BY_LEAD[keywords : keywords + 2]
    return least + (most - least) * (lead - keywords)


def keyword_points(priority: int) -> float:
    """The points of a matching keyword of an agent with this priority."""
    return _KEYWORD * priority / 100


def pattern_points(priority: int) -> float:
    """The points of a matching pattern of an agent with this priority."""
    return _PATTERN * priority / 100


def _in_order(found: list[tuple[int, str]]) -> tuple[str, ...]:
    return tuple([written for _, written in sorted(found)])


def _listed(kind: str, words: Sequence[str]) -> str:
    shown = ", ".join(repr(word[:60]) for word in words[:5])
    more = f" and {len(words) - 5} more" if len(words) > 5 else ""
    return f"{kind}{'s' if len(words) > 1 else ''} {shown}{more}"


def _pattern_set(patterns: Mapping[str, _Owners]) -> PatternSet:
    try:
        return PatternSet(list(patterns))
    except UserError as exc:
        bad = next(pattern for pattern in patterns if fault_of(pattern) is not None)
        raise UserError(f"agent {next(iter(patterns[bad]))!r}: {exc}") from None
