"""What conditions mean: the table of the documentation, line by line."""

from __future__ import annotations

import copy
import pickle
from collections import ChainMap, UserDict, defaultdict, namedtuple
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

from ekiden.conditions import Condition, compile_condition
from tests.support.cases import each_case

NO: Any = object()
"""The result of an expression that has no value."""


class Tier(StrEnum):
    PRO = "pro"


class Level(IntEnum):
    HIGH = 3


class Ratio(float):
    pass


class Lazy(Mapping[str, Any]):
    """A mapping that is not a dict."""

    def __getitem__(self, key: str) -> Any:
        return {"tier": "pro", "deep": {"x": 1}}[key]

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return iter(["tier", "deep"])


Point = namedtuple("Point", "x y")

FACTS: dict[str, Any] = {
    "confidence": 0.3,
    "error_count": 5,
    "plan": "pro",
    "user": {"tier": "premium", "age": 30, "tags": ["vip", "beta"], "a key": {"from": "x"}},
    "items": [{"id": 7}, {"id": 8}],
    "empty": [],
    "nothing": None,
    "yes": True,
    "no": False,
    "zero": 0,
    "blank": "",
    "nan": float("nan"),
    "inf": float("inf"),
    "huge": 2**70,
    "object": object(),
    "decimal": Decimal("1.5"),
    "enum": Tier.PRO,
    "level": Level.HIGH,
    "ratio": Ratio(0.5),
    "ratio_nan": Ratio("nan"),
    "point": Point(1, 2),
    "names": {"b", "a"},
    "mixed": frozenset({1}),
    "lazy": Lazy(),
    "proxy": MappingProxyType({"a": 1}),
    "chain": ChainMap({"a": 1}, {"b": 2}),
    "default": defaultdict(list, a=1),
    "user_dict": UserDict(a=1),
    "用户": {"等级": "高"},
    "ключ": 1,
    "हिन्दी": 1,
}


def value(text: str, facts: Any = FACTS) -> Any:
    """What `text` gives; both ways to evaluate must agree."""
    condition = compile_condition(text)
    found = condition.evaluate(facts, now=1_000_000.0)
    assert condition.holds(facts, now=1_000_000.0) is found.value
    assert found.value is bool(found.result)
    if found.result is None and any(entry.note for entry in found.trace):
        return NO
    return found.result


@each_case(
    "text",
    [
        "confidence < 0.5 and error_count > 3",
        'user.tier in ["premium", "enterprise"]',
        "plan == 'pro'",
        "0 < confidence < 1",
        "1 < error_count <= 5 != 6 > 2",
        "not no and yes",
        "error_count % 2 == 1 and error_count // 2 == 2 and error_count / 2 == 2.5",
        "-error_count < 0 and - -error_count == 5 and -(2 + 3) == -5",
        "2 + 3 * 4 == 14 and (2 + 3) * 4 == 20 and 2 - 3 - 4 == -5 and 12 / 2 / 3 == 2",
        "7 // 2 * 2 + 7 % 2 == 7",
        "items[0].id == 7 and items[-1].id == 8",
        'user["tags"][1] == "beta" and user["a key"].from == "x"',
        'user . tags [ 0 ] == "vip"',
        '"vip" in user.tags and "x" not in user.tags',
        '"tier" in user and "nobody" not in user',
        '"rem" in user.tier',
        "plan in ('pro', 'team',) and plan in (plan, 'x') and 1 in (1,)",
        "[1, 2] == (1, 2.0) and [] == empty and [error_count] == [5]",
        "true and True and not false and not False and null == None",
        'plan == "pro" or nobody',
        "no or yes",
        "nothing == null and exists(nothing)",
        '"a" < "b" and "é" > "e" and "b" >= "b"',
        ".5 == 0.5 and 1. == 1 and 1e3 == 1000 and 2E-1 == 0.2",
        '用户.等级 == "高"',
        "ключ == 1 and हिन्दी == 1",
        "confidence<0.5 and(error_count)>3",
        "plan\n  ==\t'pro'\u3000and yes",
        "inf > 9e300 and inf == inf",
    ],
)
def test_a_true_condition_holds(text: str) -> None:
    assert compile_condition(text).evaluate(FACTS).value is True
    assert compile_condition(text).holds(FACTS) is True


@each_case(
    ("text", "result"),
    [
        ("x", NO),
        ("x.y.z", NO),
        ("user.x", NO),
        ("plan.x", NO),
        ("items[2]", NO),
        ("items[-3]", NO),
        ("plan[0]", NO),
        ("user[0]", NO),
        ('items["id"]', NO),
        ("not x", True),
        ("x == 1", False),
        ("x != 1", False),
        ("x == null", False),
        ("x != null", False),
        ("x == x", False),
        ("x < 1", False),
        ("x >= 1", False),
        ("1 > x", False),
        ("0 < x < 10", False),
        ("x in [1]", False),
        ("x not in [1]", False),
        ("1 in x", False),
        ("1 not in x", False),
        ("not x == 1", True),
        ("not (x < 1)", True),
        ("1 in [1, x]", True),
        ("2 in [1, x]", False),
        ("2 not in [1, x]", False),
        ("1 not in [1, x]", False),
        ("[1, x] == [1, 2]", False),
        ("[1, x] != [1, 2]", False),
        ("[1, x] == [2, 2]", False),
        ("[1, x] != [2, 2]", True),
        ("[1, x] == [1]", False),
        ("x + 1", NO),
        ("1 - x", NO),
        ("-x", NO),
        ("x + 1 > 0", False),
        ("lower(x)", NO),
        ("len(x)", NO),
        ('contains(x, "a")', False),
        ('contains("a", x)', False),
        ('not contains(x, "a")', True),
        ('contains(x, "a") == false', True),
        ('startswith(x, "a")', False),
        ('matches(x, "a")', False),
        ("any_of(x, 1)", False),
        ('x or "free"', "free"),
        ("x and yes", NO),
        ("x or y", NO),
        ("exists(x)", False),
        ("not exists(x)", True),
        ("exists(user.x)", False),
        ("exists(user.tier.x)", False),
        ("exists(user.tier)", True),
        ("exists(items[1]) and not exists(items[2])", True),
        ("[1, x]", [1, None]),
    ],
)
def test_a_missing_field_and_comparisons_with_it_are_false(text: str, result: Any) -> None:
    assert value(text) == result


@each_case(
    ("text", "result"),
    [
        ('"1" == 1', False),
        ('"1" != 1', True),
        ("true == 1", False),
        ("yes == 1", False),
        ("yes != 1", True),
        ("[true] == [1]", False),
        ("1 in [true]", False),
        ("yes in [1, true]", True),
        ("1 == 1.0", True),
        ("1.0 in [1]", True),
        ("null == false", False),
        ("null == 0", False),
        ('null == ""', False),
        ("nothing in [null]", True),
        ("plan < 1", False),
        ("plan >= 1", False),
        ("nothing < 1", False),
        ("yes < 2", False),
        ("no < yes", False),
        ("empty < 1", False),
        ("empty < items", False),
        ("user < user", False),
        ("1 in plan", False),
        ("1 not in plan", False),
        ("1 in user", False),
        ("1 in error_count", False),
        ("user in items", False),
        ("user == user", True),
        ("items == items", True),
        ("user == items", False),
        ("items[0] in items", True),
        ("items[0] not in items", False),
        ("plan * 3", NO),
        ("3 * items", NO),
        ("plan + plan", NO),
        ("yes + 1", NO),
        ("-plan", NO),
        ("nothing + 1", NO),
        ("error_count / zero", NO),
        ("error_count // zero", NO),
        ("error_count % zero", NO),
        ("error_count / zero > 0", False),
        ("1.5 // 0.0", NO),
        ("9223372036854775807 + 1", 2**63),
        ("9223372036854775807 * 2", NO),
        ("-9223372036854775808 - 1", NO),
        ("1e308 * 10", NO),
        ("inf - inf", NO),
        ("inf + 1", NO),
        ("nan == nan", False),
        ("nan != nan", False),
        ("nan < 1", False),
        ("not nan", True),
        ("1 not in [nan]", False),
        ("huge > 1", False),
        ("huge == huge", False),
        ("exists(huge) and exists(nan)", True),
        ("object", NO),
        ("object == object", False),
        ("object != 1", False),
        ("decimal > 1", False),
        ("ratio_nan", NO),
    ],
)
def test_mismatched_types_are_false_or_have_no_value(text: str, result: Any) -> None:
    assert value(text) == result


@each_case(
    ("text", "result"),
    [
        ('enum == "pro"', True),
        ('enum in ["pro"]', True),
        ("level == 3", True),
        ("level + 1", 4),
        ("ratio * 2", 1.0),
        ("point[0] == 1 and len(point) == 2", True),
        ('"a" in names and len(names) == 2 and names == ["a", "b"]', True),
        ("1 in mixed", True),
        ('lazy.tier == "pro" and lazy.deep.x == 1', True),
        ("lazy.x", NO),
        ('"tier" in lazy and "x" not in lazy', True),
        ("len(lazy)", 2),
        ("lazy == lazy", True),
        ('lazy and "yes"', "yes"),
        ("proxy.a + chain.b + default.a + user_dict.a", 5),
        ("default.b", NO),
    ],
)
def test_facts_may_have_common_python_types(text: str, result: Any) -> None:
    assert value(text) == result
    assert "b" not in FACTS["default"], "reading changes nothing"


@each_case("name", ["nothing", "no", "zero", "blank", "empty", "x", "nan", "object"])
def test_falsy_values_do_not_hold(name: str) -> None:
    assert not compile_condition(name).holds(FACTS)
    assert compile_condition(f"not {name}").holds(FACTS)


@each_case("name", ["yes", "plan", "items", "user", "confidence", "inf", "lazy"])
def test_truthy_values_hold(name: str) -> None:
    assert compile_condition(name).holds(FACTS)
    assert not compile_condition(f"not {name}").holds(FACTS)


def test_evaluation_short_circuits() -> None:
    asked: list[str] = []

    class Facts(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            asked.append(key)
            return {"yes": True, "no": False}[key]

        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[str]:
            return iter(["yes", "no"])

    assert compile_condition("yes or other").holds(Facts())
    assert not compile_condition("no and other").holds(Facts())
    assert not compile_condition("1 > 2 < other").holds(Facts())
    assert asked == ["yes", "no"]


def test_names_lists_the_fields_that_may_be_read() -> None:
    condition = compile_condition(
        'user.tier == "a" and (items[0].id > 1 or payload["a key"] or payload["plain"]) '
        "and exists(x.y) and len(z) and user.tier"
    )
    assert condition.names == {
        "user.tier",
        "items[0].id",
        'payload["a key"]',
        "payload.plain",
        "x.y",
        "z",
    }


def test_a_condition_is_compiled_once_and_compares_equal() -> None:
    condition = compile_condition("a > 1")
    assert compile_condition("a > 1") is condition
    assert compile_condition("a > 2") != condition
    assert str(condition) == condition.text == "a > 1"
    assert isinstance(condition, Condition)
    assert len({condition, compile_condition("a > 1")}) == 1


def test_a_condition_can_be_copied_and_pickled() -> None:
    condition = compile_condition("a > 1")
    for other in (pickle.loads(pickle.dumps(condition)), copy.deepcopy(condition)):
        assert other == condition
        assert other.holds({"a": 2})


@each_case("facts", [None, 5, "text", [], object(), {1: 2}])
def test_facts_that_are_no_mapping_have_no_fields(facts: Any) -> None:
    found = compile_condition("a > 1 or a[0]").evaluate(facts)
    assert found.value is False
    assert found.missing == ("a", "a[0]")


def test_text_has_few_escapes_and_keeps_other_backslashes() -> None:
    facts = {"text": "a\"b'c\n\t\\d\\b"}
    assert compile_condition(r"""text == "a\"b\'c\n\t\\d\b" """).holds(facts)
