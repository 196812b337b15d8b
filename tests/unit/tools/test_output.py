"""Results as the model reads them."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ekiden.tools import output_of, output_text


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


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("text", "text"),
        ("", ""),
        ('{"already": "json"}', '{"already": "json"}'),
        (Colour.RED, "red"),
        (b"bytes \xe2\x82\xac", "bytes €"),
        (b"\xff", "\\xff"),
        (None, "None"),
        (True, "True"),
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
        ({"n": float("nan")}, '{"n":NaN}'),
        (Order, str(Order)),
    ],
)
def test_a_result_becomes_text(result: Any, text: str) -> None:
    assert output_text(result) == text
    assert output_of(result) == text


def test_an_object_of_an_unknown_class_is_shown_through_str() -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    assert output_text(Thing()) == "a thing"
    assert output_text({"thing": Thing()}) == '{"thing":"a thing"}'


def test_a_structure_that_contains_itself_is_shown_through_str() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert output_text(circle) == "[[...]]"


def test_content_parts_pass_through() -> None:
    parts = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]
    assert output_of(parts) is parts
    assert json.loads(output_text(parts)) == parts


@pytest.mark.parametrize(
    "result", [[{"type": "input_text", "text": "a"}, "b"], [{"type": "order"}], []]
)
def test_other_lists_are_json_text(result: list[Any]) -> None:
    assert isinstance(output_of(result), str)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(categories=None)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda value: isinstance(value, list | dict))
)
def test_json_comes_back_as_it_was(value: Any) -> None:
    assert json.loads(output_text(value)) == value
