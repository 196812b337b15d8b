"""Entries before they are stored."""

import sys
from array import array

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import SearchEntry
from ekiden.storage.search import (
    checked_entries,
    cosines,
    from_bytes,
    numpy_or_python,
    score_of,
    to_bytes,
    unit_vector,
)
from tests.support.cases import each_case


@pytest.fixture(params=["numpy", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without numpy."""
    if request.param == "python":
        monkeypatch.setitem(sys.modules, "numpy", None)
    else:
        pytest.importorskip("numpy")
    return str(request.param)


def test_cosines_are_the_same_with_and_without_numpy(engine: str) -> None:
    asked = unit_vector([1.0, 1.0], "q")
    vectors = [to_bytes(unit_vector(each, "v")) for each in ([1, 1], [1, 0], [-1, -1], [0, 0])]
    assert cosines(vectors, asked) == [1.0, 0.707107, -1.0, 0.0]
    assert cosines([], asked) == []
    assert numpy_or_python().startswith(engine)


def test_a_score_is_between_0_and_1() -> None:
    assert [score_of(each) for each in (-0.5, 0.0, 0.25, 1.000001)] == [0.0, 0.0, 0.25, 1.0]


def test_a_vector_is_stored_in_one_order_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = array("f", [1.0, -2.0])
    stored = b"\x00\x00\x80\x3f\x00\x00\x00\xc0"
    assert to_bytes(vector) == stored
    assert from_bytes(stored) == (1.0, -2.0)
    other = "big" if sys.byteorder == "little" else "little"
    monkeypatch.setattr(sys, "byteorder", other)
    swapped = to_bytes(vector)
    assert (swapped == stored) is (other == "little")
    assert from_bytes(swapped) == (1.0, -2.0)


@each_case(
    ("vector", "told"),
    [
        ([], "is empty"),
        ([1.0, "x"], "not a number"),
        (5, "not a number"),
        (["1"], "not a number"),
        ([1e308, 1e308, 1e308, 1e308], "not a finite number"),
        ([float("-inf")], "not a finite number"),
        ([10**400], "not a number"),
    ],
)
def test_an_invalid_vector_is_refused(vector: object, told: str) -> None:
    with pytest.raises(UserError, match=f"the vector of q .*{told}"):
        unit_vector(vector, "q")


def test_a_vector_of_the_smallest_numbers_is_normalized() -> None:
    assert list(unit_vector([5e-324, 0.0], "q")) == [1.0, 0.0]
    assert list(unit_vector([-0.0, 0.0], "q")) == [0.0, 0.0]


def test_numpy_vectors_are_accepted() -> None:
    np = pytest.importorskip("numpy")
    assert list(unit_vector(np.array([3.0, 4.0], dtype="float32"), "q")) == pytest.approx(
        [0.6, 0.8]
    )


def test_entries_are_sorted_by_space_and_key_without_duplicates() -> None:
    places = [("b", "1"), ("a", "2"), ("a", "1"), ("b", "1")]
    owned = checked_entries(
        [SearchEntry(space=s, key=k, text=str(n)) for n, (s, k) in enumerate(places)]
    )
    assert [(own.space, own.key, own.text) for own in owned] == [
        ("a", "1", "2"),
        ("a", "2", "1"),
        ("b", "1", "3"),
    ]


def test_the_error_names_the_entry_and_the_fix() -> None:
    entry = SearchEntry(space="s", key="k", text="x", vector=[1.0])
    with pytest.raises(UserError, match="entry 'k' of space 's' has no `model`: name the embedder"):
        checked_entries([entry])
    with pytest.raises(UserError, match=r"body of entry 'k' of space 's' .* at \['a'\]"):
        checked_entries([SearchEntry(space="s", key="k", text="x", body={"a": {1}})])
    with pytest.raises(UserError, match="the key 7: it must be text"):
        checked_entries([SearchEntry(space="s", key=7, text="x")])
