"""Results as the model reads them."""

from __future__ import annotations

import enum
import json
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, ConfigDict, RootModel

from ekiden.core.values import dumps
from ekiden.tools import NoJsonForm, json_form, output_of, output_text, to_jsonable
from tests.support.cases import each_case


class Order(BaseModel):
    number: int
    at: datetime


@dataclass
class Parcel:
    order: Order
    weight: Decimal


class Pair(NamedTuple):
    a: int
    b: str


class Colour(str, enum.Enum):  # noqa: UP042  # whose str() is not its value
    RED = "red"


ORDER = Order(number=7, at=datetime(2026, 1, 2, tzinfo=UTC))


@each_case(
    ("result", "text"),
    [
        ("text", "text"),
        ("", ""),
        ('{"already": "json"}', '{"already": "json"}'),
        (Colour.RED, "red"),
        (b"bytes \xe2\x82\xac", "bytes €"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (Decimal("1.10"), "1.10"),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'),
        ([], "[]"),
        ((1, "a"), '[1,"a"]'),
        (Pair(1, "a"), '[1,"a"]'),
        ({1}, "[1]"),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        (ORDER, '{"number":7,"at":"2026-01-02T00:00:00Z"}'),
        ([ORDER], '[{"number":7,"at":"2026-01-02T00:00:00Z"}]'),
        (
            Parcel(ORDER, Decimal("1.10")),
            '{"order":{"number":7,"at":"2026-01-02T00:00:00Z"},"weight":"1.10"}',
        ),
        ({"id": UUID(int=1)}, '{"id":"00000000-0000-0000-0000-000000000001"}'),
        (ORDER.at, "2026-01-02T00:00:00Z"),
        (timedelta(hours=1), "PT1H"),
        (Path("a/b"), "a/b"),
        ({Colour.RED: {3, 1, 2}}, '{"red":[1,2,3]}'),
        ({1: True, None: 1.5}, '{"1":true,"null":1.5}'),
    ],
)
def test_a_result_is_converted_to_text(result: Any, text: str) -> None:
    assert output_text(result) == text
    assert output_of(result) == text


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (threading.Lock(), "a value of type 'lock' has no JSON form"),
        ({"a": [1, threading.Lock()]}, r"'lock' at \['a'\]\[1\] has no JSON form"),
        (Order, "'ModelMetaclass' has no JSON form"),
        (output_text, "'function' has no JSON form"),
        (ValueError("no"), "'ValueError' has no JSON form"),
        ((each for each in "ab"), "'generator' has no JSON form"),
        (b"\xff", "invalid utf-8"),
        ({"n": float("nan")}, r"the number nan at \['n'\] does not exist in JSON"),
        ({(1, 2): 3}, "a key of type 'tuple' is not text"),
    ],
)
def test_a_value_without_a_json_form_is_refused(result: Any, problem: str) -> None:
    for convert in (output_text, output_of, json_form):
        with pytest.raises(NoJsonForm, match=problem):
            convert(result)


def test_a_cyclic_structure_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(NoJsonForm, match="contains itself"):
        output_text(circle)


def test_content_parts_are_unchanged() -> None:
    parts = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]
    assert output_of(parts) is parts
    assert json.loads(output_text(parts)) == parts


@pytest.mark.parametrize(
    "result", [[{"type": "input_text", "text": "a"}, "b"], [{"type": "order"}], [{"type": {}}], []]
)
def test_other_lists_are_converted_to_json_text(result: list[Any]) -> None:
    assert isinstance(output_of(result), str)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(categories=None)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda value: isinstance(value, list | dict))
)
def test_json_is_restored_unchanged(value: Any) -> None:
    assert json.loads(output_text(value)) == value


class Thing:
    def __str__(self) -> str:
        return "a thing"


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: Any


@dataclass
class Ring:
    next: list[Any] = field(default_factory=list)


@each_case(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        ("é\ud800", "é\ud800"),
        (float("inf"), "inf"),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        (Colour.RED, "red"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(seconds=5), "PT5S"),
        (Decimal("1.10"), "1.10"),
        ({"a"}, ["a"]),
        (Pair(1, "a"), [1, "a"]),
        (deque([1]), [1]),
        ({1: {None: Thing()}}, {"1": {"None": "a thing"}}),
        (ORDER, {"number": 7, "at": "2026-01-02T00:00:00Z"}),
        (
            [Parcel(ORDER, Decimal(2))],
            [{"order": {"number": 7, "at": "2026-01-02T00:00:00Z"}, "weight": "2"}],
        ),
        (RootModel[list[int]]([1]), [1]),
        (Loose(thing={1: Thing()}), {"thing": {"1": "a thing"}}),
        (Loose(thing=float("nan")), {"thing": None}),
        (Order, str(Order)),
        (Parcel, str(Parcel)),
        (Thing(), "a thing"),
        (Unshowable(), "<Unshowable>"),
    ],
)
def test_any_value_is_converted_to_json(value: Any, plain: Any) -> None:
    assert to_jsonable(value) == plain
    assert json.loads(dumps(to_jsonable(value))) == plain


def test_a_cyclic_value_is_truncated() -> None:
    ring = Ring()
    ring.next += [ring, ring]
    shown = to_jsonable(ring)
    assert list(shown) == ["next"]
    assert len(shown["next"]) == 2
    assert "Ring(" in shown["next"][0]


def test_a_deeply_nested_value_is_truncated() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    dumps(to_jsonable(deep))


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary()
        | st.dates() | st.decimals() | st.text(st.characters(categories=None)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    )
)  # fmt: skip
def test_a_converted_value_can_always_be_written_as_json(value: Any) -> None:
    plain = to_jsonable(value)
    assert json.loads(dumps(plain)) == plain
    assert to_jsonable(plain) == plain
