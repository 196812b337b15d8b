"""Rules against a slow and simple reading of what they promise."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from math import floor

import pytest
import re2
from hypothesis import given, settings, strategies as st

from ekiden import Agent, UserError
from ekiden.agents import pattern_set
from ekiden.agents.pattern_set import PatternSet
from ekiden.core.profile import Triggers
from ekiden.core.text.keywords import folded
from ekiden.routing import RuleStage

LETTERS = "aabbcßİé Яσ_19  \t\n.,-'’+++#订单误のエラー오류ไทย\u0302\u200d①Ａ🔥"
texts = st.text(st.sampled_from(LETTERS), max_size=14)
keywords = st.text(st.sampled_from(LETTERS), min_size=1, max_size=4).filter(str.strip)
regexes = st.sampled_from(
    [
        "a+b",
        r"\bab?\b",
        "订单|误",
        "^a",
        "b$",
        "[^a]b",
        "é",
        "(?:a|b){2}",
        r"\d+",
        "ς",
        "İ",
        "k",
    ]
) | keywords.map(re2.escape)

SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI")


def in_word(character: str) -> bool:
    if unicodedata.name(character, "").startswith(SCRIPTS):
        return False
    return (
        character == "_" or character.isalnum() or unicodedata.category(character).startswith("M")
    )


def words(text: str) -> set[tuple[int, int]]:
    """Where the words begin and end: one letter with ++ or # is a word too."""
    found, start = set(), 0
    while start < len(text):
        end = start
        while end < len(text) and in_word(text[end]):
            end += 1
        if end == start:
            start += 1
            continue
        if end == start + 1 and "a" <= text[start] <= "z":
            if text[end : end + 2] == "++":
                end += 2
            elif text[end : end + 1] == "#" and not (
                text[end + 1 : end + 2] and in_word(text[end + 1])
            ):
                end += 1
        found.add((start, end))
        start = end
    return found


def is_found(keyword: str, text: str) -> bool:
    """Whether it stands somewhere so that each of its words is a whole word there."""
    needle, haystack = folded(keyword), folded(text)
    if not needle:
        return False
    whole = words(haystack)
    return any(
        haystack.startswith(needle, at)
        and all((start + at, end + at) in whole for start, end in words(needle))
        for at in range(len(haystack))
    )


def matches(pattern: str, text: str) -> bool:
    options = re2.Options()
    options.case_sensitive = False
    shapes = (text, unicodedata.normalize("NFKC", text))
    return any(re2.search(pattern, shape, options) for shape in shapes)


def points(agent: Agent[None], text: str) -> int:
    distinct = {folded(keyword): keyword for keyword in agent.triggers.keywords}
    hits = sum(is_found(keyword, text) for keyword in distinct.values())
    more = sum(matches(pattern, text) for pattern in set(agent.triggers.patterns))
    return floor((10 * hits + 20 * more) * agent.triggers.priority / 100 + 0.5)


triggers = st.builds(
    Triggers,
    keywords=st.lists(keywords, max_size=4).map(tuple),
    patterns=st.lists(regexes, max_size=2).map(tuple),
    priority=st.integers(0, 100),
)


@settings(deadline=None)
@given(keywords, texts)
def test_keywords_are_found_as_by_the_reference_implementation(keyword: str, text: str) -> None:
    stage = RuleStage([Agent("a", triggers=Triggers(keywords=(keyword,), priority=100))])
    assert (stage.decide(text).agent == "a") is is_found(keyword, text)


@settings(deadline=None)
@given(keywords, texts, texts)
def test_a_keyword_is_found_between_spaces(keyword: str, before: str, after: str) -> None:
    stage = RuleStage([Agent("a", triggers=Triggers(keywords=(keyword,), priority=100))])
    if folded(keyword):
        assert stage.decide(f"{before} {keyword} {after}").agent == "a"


@settings(deadline=None)
@given(st.lists(triggers, max_size=4), texts)
def test_scores_equal_those_of_the_reference_implementation(
    all_triggers: list[Triggers], text: str
) -> None:
    agents = [Agent(f"agent-{i}", triggers=each) for i, each in enumerate(all_triggers)]
    result = RuleStage(agents).decide(text)
    expected = {agent.name: points(agent, text) for agent in agents}
    assert {score.agent: score.score for score in result.candidates} == {
        name: score for name, score in expected.items() if score
    }
    scores = [score.score for score in result.candidates]
    assert scores == sorted(scores, reverse=True)
    assert result.agent == (result.candidates[0].agent if result.candidates else None)


@settings(deadline=None)
@given(
    st.text(max_size=40), st.lists(st.text(min_size=1, max_size=6).filter(str.strip), max_size=5)
)
def test_arbitrary_texts_and_keywords_raise_no_exception(text: str, some: list[str]) -> None:
    stage = RuleStage([Agent("a", triggers=Triggers(keywords=tuple(some), priority=100))])
    assert stage.decide(text).confidence <= 100


@settings(deadline=None)
@given(st.lists(regexes, max_size=8), st.text(max_size=12) | texts)
def test_a_set_of_patterns_matches_like_each_pattern_alone(some: Sequence[str], text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    expected = {index for index, pattern in enumerate(some) if matches(pattern, text)}
    assert PatternSet(some).matches(text) == expected


def test_patterns_that_fill_several_filters_are_all_found() -> None:
    some = [f"{'x' * 100}{number}y" for number in range(1000)]
    made = PatternSet(some)
    assert len(made._filters) > 1
    for number in (0, 1, 499, 998, 999):
        assert made.matches("X" * 100 + f"{number}y") == {number}


def test_a_filter_that_runs_out_of_memory_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_set, "_FILTER_BYTES", 10**9)
    some = [f"{chr(0x4E00 + number)}订单号码错误信息" for number in range(8000)]
    made = PatternSet(some)
    assert len(made._filters) > 1
    assert made.matches(f"请问{some[7999]}和{some[1]}") == {1, 7999}


def test_patterns_without_a_filter_are_tried_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pattern_set, "_filter", lambda some: None)
    assert PatternSet(["a.c", "订单", "^x"]).matches("XABC 订单") == {0, 1, 2}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "does not compile"),
        ("(?=x)", "look-around is not supported"),
        ("\ud800", "lone surrogate"),
        ("(a{1000}){1000}", "too much memory"),
    ],
)
def test_an_unusable_pattern_is_refused_with_advice(pattern: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        PatternSet(["fine", pattern])
