"""Words that were probably meant."""

from __future__ import annotations

from ekiden.core.text.wording import did_you_mean, suggestion
from tests.support.cases import each_case

KNOWN = ["description", "handoff_description", "triggers", "triage"]


@each_case(
    ("word", "meant"),
    [
        ("descripton", "description"),
        ("handoffDescription", "handoff_description"),
        ("Handoff-Description", "handoff_description"),
        ("tirage", "triage"),
        ("TRIGGERS", "triggers"),
        ("trigger", "triggers"),
        ("zebra", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_the_nearest_known_word_is_found(word: str, meant: str | None) -> None:
    assert did_you_mean(word, KNOWN) == meant


def test_words_of_other_scripts_are_suggested() -> None:
    assert did_you_mean("退款员", ["退款专员", "billing"]) == "退款专员"


def test_the_order_of_the_known_words_does_not_matter() -> None:
    assert did_you_mean("ax", ["ay", "az", "aX"]) == "aX"
    assert did_you_mean("abcd", ["abce", "abcf"]) == did_you_mean("abcd", ["abcf", "abce"])


def test_a_suggestion_is_appended_to_a_message_or_empty() -> None:
    assert suggestion("tirage", KNOWN) == "; did you mean 'triage'?"
    assert suggestion("zebra", KNOWN) == ""
    assert suggestion("x", []) == ""
