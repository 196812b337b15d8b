"""The functions of conditions, each with what it takes and what it does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ekiden.conditions import FUNCTIONS, compile_condition
from tests.support.cases import each_case

NOW = 1_767_268_800.0
"""2026-01-01 12:00 UTC."""

FACTS: dict[str, Any] = {
    "message": "I want my REFUND now, 订单号 A-123",
    "tags": ["vip", "beta", 3],
    "counts": [4, 1.5, 9],
    "words": ["b", "a"],
    "mixed": [1, "a"],
    "broken": [1, float("nan")],
    "empty": [],
    "user": {"name": "Straße", "age": 30},
    "big": 1e300,
    "inf": float("inf"),
    "surrogate": "a\ud800b",
}


def result(text: str) -> Any:
    condition = compile_condition(text)
    found = condition.evaluate(FACTS, now=NOW)
    assert condition.holds(FACTS, now=NOW) is found.value
    return found.result


@each_case(
    ("text", "expected"),
    [
        ('len("abc")', 3),
        ("len(tags)", 3),
        ("len(user)", 2),
        ("len([])", 0),
        ('lower("ÀB")', "àb"),
        ('upper("àß")', "ÀSS"),
        ('fold("STRASSE") == fold(user.name)', True),
        ('fold("ΟΔΟΣ") == fold("οδος")', True),
        ('fold("ＡＢＣ") == "abc"', True),
        ('fold("cafe\u0301") == fold("CAFÉ")', True),
        ('fold("ОШИБКА") == "ошибка"', True),
        ('contains(fold(message), "refund")', True),
        ('contains(message, "refund")', False),
        ('contains(tags, "vip")', True),
        ("contains(tags, 4)", False),
        ('contains(user, "age")', True),
        ('startswith(message, "I want")', True),
        ('startswith(message, "want")', False),
        ('endswith(message, "123")', True),
        ('endswith(message, "12")', False),
        (r'matches(message, "A-\d+$")', True),
        (r'matches(message, "^\d")', False),
        ('matches(message, "refund")', False),
        ('matches(message, "(?i)refund")', True),
        ('matches(message, "订.号")', True),
        (r'matches(message, "\bwant\b")', True),
        ('matches(surrogate, "a.b")', True),
        ('any_of(tags, "x", "vip")', True),
        ('any_of(tags, "x", 4)', False),
        ('all_of(tags, "beta", 3)', True),
        ('all_of(tags, "beta", 4)', False),
        ("any_of(broken, 1)", True),
        ("min(counts)", 1.5),
        ("max(counts)", 9),
        ("min(3, 2, 5)", 2),
        ("max(words)", "b"),
        ('min("b", "a")', "a"),
        ("max(3)", 3),
        ("abs(-3)", 3),
        ("abs(2.5)", 2.5),
        ("round(2.5)", 2),
        ("round(2.456, 1)", 2.5),
        ("round(7)", 7),
        ('number("12")', 12),
        ('number(" -1.5e2 ")', -150.0),
        ('number("+.5")', 0.5),
        ('number("１２")', 12),
        ("number(7)", 7),
        ("now()", NOW),
        ("seconds_since(now() - 90)", 90.0),
        ('hours_since("2026-01-01T00:00:00Z")', 12.0),
        ('hours_since("2026-01-01")', 12.0),
        ('hours_since("2026-01-01T20:00:00+08:00")', 0.0),
        ('hours_since("2026-01-01 13:00")', -1.0),
        ("hours_since(1767265200)", 1.0),
        ("exists(user.age)", True),
        ("exists(user.size)", False),
    ],
)
def test_a_function_returns_its_value(text: str, expected: Any) -> None:
    found = result(text)
    assert found == expected
    assert type(found) is type(expected)


@each_case(
    ("text", "note"),
    [
        ("len(1)", "len needs text, a list or a mapping, not number"),
        ("len(null)", "len needs text, a list or a mapping, not null"),
        ("lower(1)", "lower needs text, not number"),
        ("upper(tags)", "upper needs text, not list"),
        ("fold(true)", "fold needs text, not boolean"),
        ("min(empty)", "min of an empty list"),
        ("max(mixed)", "max needs numbers only or texts only, not number, text"),
        ("max(user)", "max needs numbers only or texts only, not mapping"),
        ("min(broken)", "not a number (NaN)"),
        ("min(true, false)", "min needs numbers only or texts only, not boolean"),
        ('abs("1")', "abs needs a number, not text"),
        ('round("1")', "round needs a number, not text"),
        ("round(1.5, 99)", "round needs a whole number of digits between 0 and 15"),
        ("round(1, -9999999)", "round needs a whole number of digits between 0 and 15"),
        ("round(1, true)", "round needs a whole number of digits between 0 and 15"),
        ("round(big)", "too large a number"),
        ("round(inf)", "too large a number"),
        ("abs(inf)", "too large a number"),
        ('number("twelve")', "text that is not a number"),
        ('number("nan")', "text that is not a number"),
        ('number("1_000")', "text that is not a number"),
        ('number("")', "text that is not a number"),
        ('number("1e999")', "too large a number"),
        (f'number("{"9" * 50}")', "too large a number"),
        (f'number("{"9" * 500}")', "text that is not a number"),
        ("number(true)", "number needs text, not boolean"),
        ("number(tags)", "number needs text, not list"),
        ('hours_since("yesterday")', "text that is not a time in ISO 8601"),
        ("hours_since(null)", "hours_since needs seconds since 1970 or ISO-8601 text, not null"),
        ("seconds_since(inf)", "too large a number"),
        ("len(user.size)", "missing: user.size"),
    ],
)
def test_a_function_without_a_value_notes_the_reason(text: str, note: str) -> None:
    found = compile_condition(text).evaluate(FACTS, now=NOW)
    assert (found.value, found.result, found.trace[0].value) == (False, None, None)
    assert found.trace[0].note == note


@each_case(
    ("text", "note"),
    [
        ("contains(1, 2)", "cannot look for number in number"),
        ("contains(message, 2)", "cannot look for number in text"),
        ("startswith(message, 1)", "startswith needs text, not number"),
        ('endswith(tags, "a")', "endswith needs text, not list"),
        ('matches(1, "a")', "matches needs text, not number"),
        ('any_of(message, "I")', "any_of needs a list, not text"),
        ("any_of(broken, 2)", "not a number (NaN)"),
        ("all_of(broken, 1, 2)", "not a number (NaN)"),
    ],
)
def test_a_predicate_that_cannot_be_evaluated_is_false(text: str, note: str) -> None:
    found = compile_condition(text).evaluate(FACTS, now=NOW)
    assert (found.value, found.result, found.trace[0].value) == (False, False, False)
    assert found.trace[0].note == note


def test_now_is_the_system_time_and_constant_during_an_evaluation() -> None:
    before = time.time()
    found = compile_condition("[now(), now()]").evaluate({}).result
    assert before <= found[0] == found[1] <= time.time()


@pytest.mark.parametrize("now", [float("nan"), 2**70, object()])
def test_an_invalid_present_time_has_no_value(now: Any) -> None:
    for text in ("now() > 0", "hours_since(0) > 0"):
        assert not compile_condition(text).holds({}, now=now)


def test_every_function_has_a_description() -> None:
    for name, function in FUNCTIONS.items():
        assert function.signature.startswith(f"{name}(")
        assert function.description
        assert "\n" not in function.description
