"""Texts in which others are looked for."""

from __future__ import annotations

from ekiden.core.text.keywords import alike
from tests.support.cases import each_case


@each_case(
    ("one", "other"),
    [
        ("Order", "ORDER"),
        ("Straße", "STRASSE"),
        ("caf\u00e9", "CAFE\u0301"),
        ("ＡＢＣ", "abc"),
        ("订单", "订单"),
        ("Ǆ", "ǆ"),
        ("ﬁne", "FINE"),
        ("\ud800", "\ud800"),
    ],
)
def test_texts_that_differ_in_case_and_unicode_form_are_alike(one: str, other: str) -> None:
    assert alike(one) == alike(other)
    assert alike(alike(one)) == alike(one)


def test_different_letters_are_not_alike() -> None:
    assert alike("resume") != alike("résumé")
    assert alike("甲") != alike("乙")


def test_many_combining_marks_are_folded_in_linear_time() -> None:
    # What sorts them all would take half an hour.
    assert len(alike("e" + "\u0301\u0316" * 500_000)) < 100
