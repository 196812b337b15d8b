"""`dataclass` makes the classes that the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from ekiden.core.dataclass import dataclass, maker

OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True, "kw_only": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"eq": False, "repr": False},
    {"frozen": True, "slots": True, "order": True},
]


def _classes(make: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    @make(**options)
    class Base:
        a: int
        b: list[str] = field(default_factory=list)
        c: str = field(default="c", compare=False, repr=False)
        d: int = field(default=4, init=False)

    @make(**options)
    class Derived(Base):
        e: str | None = None

        def __post_init__(self) -> None:
            object.__setattr__(self, "d", 5)

    return Base, Derived


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_decorator_equals_the_one_of_the_standard_library(
    options: dict[str, Any],
) -> None:
    for ours, theirs in zip(
        _classes(dataclass, options), _classes(dataclasses.dataclass, options), strict=True
    ):
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        assert str(ours.__dataclass_params__) == str(theirs.__dataclass_params__)
        assert getattr(ours, "__match_args__", None) == getattr(theirs, "__match_args__", None)
        assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)
        for given in ({"a": 1}, {"a": 1, "b": ["x"], "c": "y"}):
            assert dataclasses.asdict(ours(**given)) == dataclasses.asdict(theirs(**given))
            if options.get("repr", True):
                assert repr(ours(**given)) == repr(theirs(**given))
        for wrong in ({}, {"a": 1, "f": 2}, {"a": 1, "d": 2}):
            with pytest.raises(TypeError) as told:
                theirs(**wrong)
            with pytest.raises(TypeError) as said:
                ours(**wrong)
            assert str(said.value) == str(told.value)
        one, same, other = ours(a=1), ours(a=1, c="other"), ours(a=2)
        assert (one == same, one == other) == (options.get("eq", True), False)
        assert (ours.__hash__ is None) == (theirs.__hash__ is None)
        assert replace(one, a=2).a == 2
        if options.get("order"):
            assert one < other
            assert one <= same
            assert other > one
            assert not one >= other
            with pytest.raises(TypeError):
                assert one < 1


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: tuple[int, ...] = ()


def test_a_frozen_value_is_immutable_hashable_and_copyable() -> None:
    point = Point(1, (2, 3))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x  # type: ignore[misc]
    assert {point: 1}[Point(1, (2, 3))] == 1
    assert copy.deepcopy(point) == point == pickle.loads(pickle.dumps(point))


def test_a_class_is_frozen_only_with_its_base_classes() -> None:
    with pytest.raises(TypeError, match="freeze all of its base classes, or none"):

        @dataclass
        class Changed(Point):  # type: ignore[misc]
            z: int = 0


@dataclass(slots=True, kw_only=True)
class Parcel:
    name: str
    labels: list[str] = field(default_factory=list)
    weight: int = 1


def test_a_maker_creates_the_same_objects_as_the_class() -> None:
    new_parcel = maker(Parcel)
    one, other = new_parcel(name="a"), new_parcel(name="a", weight=2)
    assert type(one) is Parcel
    assert one == Parcel(name="a")
    assert other == Parcel(name="a", weight=2)
    assert one.labels is not other.labels
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        new_parcel()  # type: ignore[call-arg]


def test_a_maker_creates_immutable_objects_of_a_frozen_class() -> None:
    point = maker(Point)(1, (2, 3))
    assert type(point) is Point
    assert point == Point(1, (2, 3))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
