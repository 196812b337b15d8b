"""What holds for any text and any facts."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from hypothesis import HealthCheck, example, given, settings, strategies as st

from ekiden.conditions import FUNCTIONS, Condition, compile_condition
from ekiden.core.errors import ConditionError
from ekiden.core.values import dumps
from tests.support.examples import examples

quick = settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)

PIECES = [
    *"()[].,+-*/%<>=!&|^~:;?#$@`\\{}'\"",
    *("==", "!=", "<=", ">=", "//", "**", "and", "or", "not", "in", "is", "if", "else", "for"),
    *("true", "False", "null", "lambda", "await", "TRUE", "x", "user.tier", "items[0]", "__x"),
    *("1", "0.5", "1e9", "1e999", "9" * 30, "'a'", '"b\\n"', "f'{x}'", "高", "ｘ", "🔥", "（"),
    *("\n", "\t", "\x00", "\ud800", "\u200b", "\u3000"),
    *(f"{name}(" for name in FUNCTIONS),
]
NAMES = ["a", "b", "c", "user", "items"]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=2)
    | st.builds(object)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*NAMES, "tier", 1]), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=10,
)
facts = st.dictionaries(st.sampled_from(NAMES), values, max_size=5)


def called(name: str, arguments: list[str]) -> str:
    function = FUNCTIONS[name]
    if name == "matches":
        return f'matches({arguments[0]}, "a+")'
    if name == "exists":
        return "exists(user.tier)"
    return f"{name}({', '.join(arguments[: max(function.least, 1) if function.most != 0 else 0])})"


atoms = st.sampled_from(
    [
        *NAMES,
        "user.tier",
        "items[0]",
        'user["b"].c',
        "items[-1].a",
        "true",
        "null",
        "'a'",
        "1",
        "-2",
    ]
)
expressions = st.recursive(
    atoms,
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("{} {} {}".format, atoms, st.sampled_from(["==", "!=", "<", ">=", "in"]), atoms)
        | st.builds("({}) {} ({})".format, inner, st.sampled_from(["==", "not in", "+"]), inner)
        | st.builds("not ({})".format, inner)
        | st.builds("[{}, {}]".format, inner, inner)
        | st.builds(
            called, st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, min_size=3, max_size=3)
        )
    ),
    max_leaves=8,
)


def read(text: str) -> tuple[Condition | None, int]:
    """The condition, or where its fault is; the message can be printed."""
    try:
        return compile_condition(text), 0
    except ConditionError as exc:
        str(exc).encode()
        return None, exc.position


@quick
@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
@example("'")
@example("\\")
@example("x['\\")
@example("-" * 100)
def test_any_text_compiles_or_is_refused_with_a_position(text: str) -> None:
    condition, place = read(text)
    assert 0 <= place <= len(text)
    if condition is not None:
        for entry in condition.evaluate({}).trace:
            assert entry.text == text[entry.start : entry.end]


@quick
@given(expressions, facts)
def test_any_condition_over_any_facts_gives_a_boolean_and_json(text: str, given_facts: Any) -> None:
    condition, _ = read(text)
    if condition is None:
        return  # such as 'a' + 1
    found = condition.evaluate(given_facts, now=1e9)
    assert found.value is condition.holds(given_facts, now=1e9)
    assert json.loads(dumps(found.to_json()))["value"] is found.value
    assert not any("evaluation failed" in entry.note for entry in found.trace)
    assert found.explain()
    starts = [(entry.start, -entry.end) for entry in found.trace]
    assert starts == sorted(starts)
    assert set(found.missing) <= condition.names


NUMBERS = {"a": 3, "b": -2.5, "c": 0, "d": 7}
TEXTS = {"s": "abc", "t": "b", "u": ""}

numbers = st.recursive(
    st.sampled_from([*NUMBERS, "1", "0.5", "2", "10"]),
    lambda inner: (
        st.builds("{} {} {}".format, inner, st.sampled_from([*"+-*/%", "//"]), inner)
        | st.builds("-{}".format, inner)
        | st.builds("({})".format, inner)
        | st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner)
        | st.builds("abs({})".format, inner)
    ),
    max_leaves=6,
)
texts = st.sampled_from([*TEXTS, "'ab'", '"b"'])
ORDERS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
truths = st.recursive(
    st.builds("{} {} {}".format, numbers, ORDERS, numbers)
    | st.builds("{} {} {} {} {}".format, numbers, ORDERS, numbers, ORDERS, numbers)
    | st.builds("{} {} {}".format, texts, ORDERS | st.sampled_from(["in", "not in"]), texts)
    | st.builds("{} in [{}, {}]".format, numbers, numbers, numbers)
    | st.builds("{} not in ({}, {})".format, texts, texts, texts)
    | st.sampled_from(["True", "False", *NUMBERS, *TEXTS]),
    lambda inner: (
        st.builds("{} and {}".format, inner, inner)
        | st.builds("{} or {}".format, inner, inner)
        | st.builds("not {}".format, inner)
        | st.builds("({})".format, inner)
    ),
    max_leaves=6,
)


@quick
@given(truths)
@example("- a * b - c - d // 2 % 5 / 0.5 < d == 7")
@example("not a == 3 or b and not c")
def test_results_equal_python_where_all_fields_exist(text: str) -> None:
    try:
        expected = eval(text, {"min": min, "max": max, "abs": abs}, {**NUMBERS, **TEXTS})
    except ZeroDivisionError:
        return
    found = compile_condition(text).evaluate({**NUMBERS, **TEXTS})
    numbers_seen = [entry.value for entry in found.trace if isinstance(entry.value, float)]
    if any(entry.note for entry in found.trace) or not all(map(isfinite, numbers_seen)):
        return  # beyond the numbers of conditions
    assert found.result == expected
    assert found.value is bool(expected)


@quick
@given(values, values)
def test_two_values_are_equal_different_or_incomparable(left: Any, right: Any) -> None:
    given_facts = {"a": left, "b": right}

    def holds(text: str) -> bool:
        return compile_condition(text).holds(given_facts)

    same, different = holds("a == b"), holds("a != b")
    assert not (same and different)
    assert (same, different) == (holds("b == a"), holds("b != a"))
    assert (same, different) == (holds("a in [b]"), holds("a not in [b]"))
    assert not (holds("a < b") and holds("a >= b"))
