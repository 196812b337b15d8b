"""What back ends do alike."""

import gc
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ekiden.core.errors import UserError
from ekiden.core.values import dumps, loads
from ekiden.storage.values import (
    checked_copy,
    collector_paused,
    copy_json,
    json_text,
    parse_cursor,
    prefix_end,
)
from tests.support.cases import each_case

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(prefix=texts, text=texts)
def test_the_end_of_a_prefix_bounds_exactly_the_texts_that_begin_with_it(
    prefix: str, text: str
) -> None:
    end = prefix_end(prefix)
    within = text >= prefix and (end is None or text < end)
    assert within == text.startswith(prefix)
    begun = prefix + text
    assert begun >= prefix
    assert end is None or begun < end


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("", None),
        ("a", "b"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("\ud7ff", "\ue000"),
    ],
)
def test_the_end_of_a_prefix(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end


def test_a_circular_structure_is_refused_as_json() -> None:
    circle: list[Any] = []
    circle.append({"again": circle})
    with pytest.raises(ValueError, match="Circular"):
        dumps(circle)
    with pytest.raises(UserError):
        json_text(circle, "it")


@given(json_values)
def test_a_copy_is_equal(value: Any) -> None:
    assert copy_json(value) == value


def test_a_copy_shares_nothing() -> None:
    value: dict[str, Any] = {"a": [{"b": []}], "c": ({"d": 1},)}
    copy = copy_json(value)
    value["a"][0]["b"].append(1)
    value["c"][0]["d"] = 2
    assert copy == {"a": [{"b": []}], "c": [{"d": 1}]}


def test_a_cursor_must_be_a_number() -> None:
    assert parse_cursor("42") == 42
    with pytest.raises(UserError, match="next_cursor"):
        parse_cursor("42x")


def test_the_garbage_collector_pauses_until_the_last_reader_is_done() -> None:
    assert gc.isenabled()
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_disabled_garbage_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@each_case("value", [float("nan"), float("inf"), object(), b"x", {1}, {(1,): 2}])
def test_copying_a_value_that_is_not_json_is_refused(value: Any) -> None:
    for nested in (value, [value], {"k": value}):
        with pytest.raises((TypeError, ValueError)):
            copy_json(nested)


def test_a_copy_equals_the_json_round_trip() -> None:
    class Word(str):
        pass

    value = {2: Word("a"), True: 1.5, None: (Word("b"),)}
    copy = copy_json(value)
    assert copy == loads(dumps(value))
    assert type(copy["null"][0]) is str


def test_a_value_that_is_not_json_is_refused_with_its_place() -> None:
    value = {"a": [{"b": {"c": b"x"}}]}
    with pytest.raises(UserError) as caught:
        json_text(value, "step {!r}", "k{}")
    assert str(caught.value) == (
        "step 'k{}' cannot be stored, it is not JSON at ['a'][0]['b']['c']: "
        "Object of type bytes is not JSON serializable"
    )
    with pytest.raises(UserError, match="step 'k' cannot be stored, it is not JSON: Object of"):
        checked_copy(b"x", "step {!r}", "k")
