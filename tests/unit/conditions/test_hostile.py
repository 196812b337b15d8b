"""Facts that want to break an evaluation: it always ends, soon, without an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ekiden.conditions import compile_condition
from ekiden.core.values import dumps
from tests.support.cases import each_case


class Raising(Mapping[str, Any]):
    """A mapping of which nothing works."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def get(self, key: str, default: Any = None) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")


class Endless(Mapping[str, Any]):
    """A mapping that has no end."""

    def __getitem__(self, key: str) -> Any:
        return Endless()

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        while True:
            yield "again"


class Hollow(Mapping[str, Any]):
    """A mapping that tells its length and nothing else."""

    def __getitem__(self, key: str) -> Any:
        raise ValueError("no")

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[str]:
        raise ValueError("no")


class Rude:
    """An object that minds being touched."""

    def _refuse(self, *_: Any) -> Any:
        raise AssertionError("nobody may call this")

    __eq__ = __lt__ = __gt__ = __add__ = __contains__ = _refuse
    __bool__ = __len__ = __iter__ = __str__ = __repr__ = __getitem__ = __hash__ = _refuse

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nobody may ask for this")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # an object may lie about it, or refuse
        raise AssertionError("nobody may ask for this")


class RudeText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nobody may call this")

    __hash__ = str.__hash__


class RudeList(list[Any]):
    def _refuse(self, *_: Any) -> Any:
        raise AssertionError("nobody may call this")

    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = _refuse  # type: ignore[assignment]


class RudeKey:
    """Stands in a dict under the hash of another key."""

    def __hash__(self) -> int:
        return hash("x")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nobody may call this")


class RudeMeta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise AssertionError("nobody may ask for this")


class Nameless(metaclass=RudeMeta):
    pass


def laughs(depth: int) -> list[Any]:
    """A small list that would be enormous if it were written out."""
    found: list[Any] = [1]
    for _ in range(depth):
        found = [found, found]
    return found


CYCLE: list[Any] = [1]
CYCLE.append(CYCLE)
OTHER_CYCLE: list[Any] = [1]
OTHER_CYCLE.append(OTHER_CYCLE)
LOOP: dict[str, Any] = {"a": 1}
LOOP["self"] = LOOP
OTHER_LOOP: dict[str, Any] = {"a": 1}
OTHER_LOOP["self"] = OTHER_LOOP

HOSTILE: dict[str, Any] = {
    "raising": Raising(),
    "endless": Endless(),
    "hollow": Hollow(),
    "rude": Rude(),
    "rude_text": RudeText("x"),
    "rude_list": RudeList([1]),
    "rude_dict": {RudeKey(): 1},
    "nameless": Nameless(),
    "class": Rude,
    "function": print,
    "cycle": CYCLE,
    "other_cycle": OTHER_CYCLE,
    "loop": LOOP,
    "other_loop": OTHER_LOOP,
    "laughs": laughs(60),
    "more_laughs": laughs(60),
    "nan": float("nan"),
    "minus_inf": float("-inf"),
    "digits": 10**5000,
    "surrogate": "\ud800",
    "bytes": b"x",
    "complex": 1j,
    "numbers": {1: 2, None: 3, (1, 2): 4},
    "text": "x" * 100_000,
}

SHAPES = [
    "{a}",
    "not {a}",
    "{a}.x",
    "{a}.x.y.z",
    "{a}[0]",
    "{a}[-1].x",
    "exists({a}.x)",
    "{a} == {b}",
    "{a} != {b}",
    "{a} < {b}",
    "{a} in {b}",
    "{a} not in {b}",
    "[{a}, 1] == [{b}, 1]",
    "{a} in [{b}]",
    "{a} + {b}",
    "{a} * 3 / {b} % 2 // 1",
    "-{a}",
    "{a} and {b} or {a}",
    "len({a}) > 1",
    "lower({a}) == upper({b})",
    "fold({a})",
    "contains({a}, {b})",
    "startswith({a}, {b})",
    'matches({a}, "x+$")',
    "any_of({a}, {b}, 1)",
    "min({a}, {b}) == max({a})",
    "min({a})",
    "abs({a})",
    "round({a}, {b})",
    "hours_since({a})",
    "number({a})",
]
WORST = ["raising", "endless", "rude", "rude_list", "cycle", "laughs", "nan", "digits", "text"]
PAIRED = [shape for shape in SHAPES if "{b}" in shape]


@each_case("name", HOSTILE)
def test_hostile_facts_cannot_break_an_evaluation(name: str) -> None:
    for other in {name, *WORST}:
        for shape in SHAPES if other == name else PAIRED:
            condition = compile_condition(shape.format(a=name, b=other))
            found = condition.evaluate(HOSTILE)
            assert found.value is condition.holds(HOSTILE)
            assert not any("evaluation failed" in entry.note for entry in found.trace)
            assert len(dumps(found.to_json())) < 10_000
            assert "\n" not in found.explain()


def test_cyclic_facts_are_not_followed_forever() -> None:
    for text in ("cycle == other_cycle", "loop == other_loop", "laughs == more_laughs"):
        found = compile_condition(text).evaluate(HOSTILE)
        assert found.trace[0].note == "too large to compare"
        assert not compile_condition(text.replace("==", "!=")).holds(HOSTILE)


def test_large_facts_are_searched_in_linear_time() -> None:
    items = [{"id": number} for number in range(30_000)]
    facts = {"many": list(range(100_000)), "items": items, "last": items[-1:]}
    assert compile_condition("99999 in many and 'x' not in many").holds(facts)
    assert compile_condition("last[0] in items and max(many) == 99999").evaluate(facts).value


def test_patterns_take_linear_time() -> None:
    condition = compile_condition('matches(text, "(a+)+$")')
    assert not condition.holds({"text": "a" * 200_000 + "b"})


def test_facts_that_raise_are_noted_apart_from_missing_ones() -> None:
    found = compile_condition("a.b > 1").evaluate({"a": Raising()})
    assert found.trace[0].note == "a.b cannot be read (RuntimeError)"
    assert found.missing == ()
    assert not compile_condition("x > 1").holds(Raising())
    assert not compile_condition("exists(x)").holds(Raising())
    assert not compile_condition("x").holds(HOSTILE["rude_dict"])


def test_an_evaluation_near_the_recursion_limit_is_false() -> None:
    condition = compile_condition(" + ".join(["a"] * 55) + " > 0")
    outcomes: list[tuple[bool, bool, str]] = []

    def down() -> None:
        try:
            found = condition.evaluate({"a": 1})
            outcomes.append((found.value, condition.holds({"a": 1}), found.trace[0].note))
        except RecursionError:
            return
        down()

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(_depth() + 400)
        down()
    except RecursionError:
        pass
    finally:
        sys.setrecursionlimit(limit)
    assert outcomes[0] == (True, True, "")
    assert (False, False, "evaluation failed (RecursionError)") in outcomes


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
