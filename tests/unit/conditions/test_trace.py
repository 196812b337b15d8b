"""What an evaluation tells of itself."""

from __future__ import annotations

from typing import Any

from ekiden.conditions import ConditionTrace, Evaluation, compile_condition
from ekiden.core.values import dumps
from tests.support.cases import each_case


def evaluated(text: str, **facts: Any) -> Evaluation:
    return compile_condition(text).evaluate(facts)


def test_the_trace_has_every_evaluated_part_in_text_order() -> None:
    found = evaluated("(confidence < 0.5) and error_count + 1 > 3", confidence=0.3, error_count=1)
    assert found.value is False
    assert found.trace == (
        ConditionTrace(
            text="(confidence < 0.5) and error_count + 1 > 3", value=False, start=0, end=42
        ),
        ConditionTrace(text="confidence < 0.5", value=True, start=1, end=17),
        ConditionTrace(text="confidence", value=0.3, start=1, end=11),
        ConditionTrace(text="error_count + 1 > 3", value=False, start=23, end=42),
        ConditionTrace(text="error_count + 1", value=2, start=23, end=38),
        ConditionTrace(text="error_count", value=1, start=23, end=34),
    )


def test_parts_that_were_not_evaluated_are_not_in_the_trace() -> None:
    assert [entry.text for entry in evaluated("a or b", a=1).trace] == ["a or b", "a"]
    assert [entry.text for entry in evaluated("a < b < c", a=2, b=1).trace] == [
        "a < b < c",
        "a",
        "b",
    ]


def test_positions_count_characters() -> None:
    text = '用户 == "🔥🔥" and 等级 > 1'
    entry = evaluated(text, 用户="🔥🔥", 等级=2).trace[-1]
    assert (entry.text, text[entry.start : entry.end]) == ("等级", "等级")


def test_a_missing_field_is_noted_at_each_affected_part() -> None:
    found = evaluated('user.tier == "a" or not lower(user.name) or x', user={})
    assert found.value is True
    assert found.missing == ("user.tier", "user.name")
    assert {entry.text: (entry.value, entry.note) for entry in found.trace if entry.note} == {
        'user.tier == "a"': (False, "missing: user.tier"),
        "user.tier": (None, "missing: user.tier"),
        "lower(user.name)": (None, "missing: user.name"),
        "user.name": (None, "missing: user.name"),
    }


@each_case(
    ("text", "note"),
    [
        ("plan < 1", "cannot compare text with number"),
        ("1 > flag", "cannot compare number with boolean"),
        ("things < things", "cannot order by <: list and list"),
        ("1 in plan", "cannot look for number in text"),
        ("1 in 1 + 1", "cannot look for number in number"),
        ("plan + 1", "cannot calculate text + number"),
        ("1 / 0", "division by zero"),
        ("nan > 1", "not a number (NaN)"),
        ("object > 1", "not a value for conditions (object)"),
        ("plan.tier", "missing: plan.tier (text before it)"),
        ("things.tier", "missing: things.tier (list before it)"),
        ("flag[0]", "missing: flag[0] (boolean before it)"),
        ("object.x", "missing: object.x"),
        ("now > 1", "missing: now; the function is written now(…)"),
    ],
)
def test_the_reason_is_noted_in_the_trace(text: str, note: str) -> None:
    found = evaluated(text, plan="a", flag=True, things=[1], nan=float("nan"), object=object())
    assert found.value is False
    assert found.trace[0].note == note


def test_exists_adds_no_missing_field() -> None:
    found = evaluated("exists(a.b)")
    assert found.missing == ()
    assert found.trace == (ConditionTrace(text="exists(a.b)", value=False, start=0, end=11),)


def test_later_changes_of_the_facts_do_not_change_the_trace() -> None:
    facts: dict[str, Any] = {"items": [1], "user": {"a": {"b": 1}}}
    found = compile_condition("items and user").evaluate(facts)
    facts["items"].append(2)
    facts["user"]["a"]["b"] = 2
    assert [entry.value for entry in found.trace[1:]] == [[1], {"a": {"b": 1}}]


@each_case(
    ("value", "shown"),
    [
        ("a" * 500, "a" * 120 + "…"),
        (list(range(100)), [0, 1, 2, 3, 4, 5, 6, 7, "… 92 more"]),
        ({str(i): i for i in range(9)}, {**{str(i): i for i in range(8)}, "…": "1 more"}),
        ([[[[1]]]], [[["[…]"]]]),
        ({"a": {"b": {"c": {}}}}, {"a": {"b": {"c": "{…}"}}}),
        ([[1] * 8] * 8, [[1] * 8, [1] * 8, [1, 1, 1, 1, "… 4 more"], "… 5 more"]),
        ({1: 2, "a": 3}, {"a": 3, "…": "1 more"}),
        ([float("inf"), float("nan"), object(), None], ["inf", None, None, None]),
        ((1, "a"), [1, "a"]),
    ],
)
def test_long_values_are_truncated_to_json(value: Any, shown: Any) -> None:
    assert evaluated("x", x=value).trace[0].value == shown


def test_an_evaluation_is_converted_to_json() -> None:
    found = evaluated("user.tier == 'a'", user={"name": "b"})
    assert found.to_json() == {
        "text": "user.tier == 'a'",
        "value": False,
        "trace": [
            {
                "text": "user.tier == 'a'",
                "value": False,
                "start": 0,
                "end": 16,
                "note": "missing: user.tier",
            },
            {
                "text": "user.tier",
                "value": None,
                "start": 0,
                "end": 9,
                "note": "missing: user.tier",
            },
        ],
        "missing": ["user.tier"],
    }


def test_the_json_of_an_evaluation_is_bounded() -> None:
    names = [f"x{number}" for number in range(150)]
    facts = {name: [{"k" * 500: ["\ud800漢" * 500] * 50}] * 50 for name in names}
    found = compile_condition(" and ".join(names)).evaluate(facts)
    shown = found.to_json()
    assert (len(shown["trace"]), shown["left_out"]) == (40, 111)
    assert len(dumps(shown)) < 25_000
    missing = compile_condition(" or ".join(f"{name}.{'y' * 5}" for name in names)).evaluate({})
    assert len(dumps(missing.to_json())) < 25_000
    long_name = compile_condition("x" * 1990 + " > 1").evaluate({})
    assert len(dumps(long_name.to_json())) < 3_000


@each_case(
    ("text", "line"),
    [
        (
            "confidence < 0.5 and error_count > 3",
            "confidence < 0.5 → 0.3 < 0.5 → true; error_count > 3 → 1 > 3 → false",
        ),
        ("error_count > 3 and confidence < 1", "error_count > 3 → 1 > 3 → false"),
        ("user.tier in ['a', 'b']", "user.tier in ['a', 'b'] → \"a\" in ['a', 'b'] → true"),
        ("x == 1", "x == 1 → missing == 1 → false"),
        ("x or 'free'", "x → missing → false"),
        ("not urgent", "not urgent → not true → false"),
        ("not x", "not x → not missing → true"),
        (
            "not (urgent and error_count == 2)",
            "urgent → true; error_count == 2 → 1 == 2 → false",
        ),
        ("not not urgent", "not urgent → not true → false"),
        ("0 < error_count < confidence", "0 < error_count < confidence → 0 < 1 < 0.3 → false"),
        ("2 < error_count < confidence", "2 < error_count < confidence → 2 < 1 < … → false"),
        ("len(name) > 3", "len(name) > 3 → 2 > 3 → false"),
        ("contains(name, 'A')", "contains(name, 'A') → contains(\"Al\", 'A') → true"),
        ("matches(name, '^A')", "matches(name, '^A') → matches(\"Al\", …) → true"),
        ("exists(name)", "exists(name) → true"),
        ("error_count + 1", "error_count + 1 → 2 → true"),
        ("name < 3", 'name < 3 → "Al" < 3 → false (cannot compare text with number)'),
        (
            "name + 1 > 2",
            "name + 1 > 2 → no value > 2 → false (cannot calculate text + number)",
        ),
        ("(x > 1) == false", "(x > 1) == false → false == false → true"),
        ("[error_count]", "[error_count] → [1] → true"),
        ("true", "true → true"),
        ("true or x", "true or x → true"),
        ("1 and 2", "1 → true; 2 → true"),
        ("name\n  ==  'Al'", "name == 'Al' → \"Al\" == 'Al' → true"),
    ],
)
def test_an_evaluation_explains_itself_in_one_line(text: str, line: str) -> None:
    facts = {
        "confidence": 0.3,
        "error_count": 1,
        "urgent": True,
        "user": {"tier": "a"},
        "name": "Al",
    }
    assert compile_condition(text).evaluate(facts).explain() == line


def test_an_explanation_is_bounded() -> None:
    text = " and ".join(f"x{number} != 'a'" for number in range(100))
    facts = {f"x{number}": "line\n" * 1000 for number in range(100)}
    said = compile_condition(text).evaluate(facts).explain()
    assert len(said) <= 2_001
    assert "\n" not in said
