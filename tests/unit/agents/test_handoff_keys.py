"""The keys of an entry of `handoffs`: what they become, and what cannot be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from ekiden.agents import AgentDefinition, AgentFile, HandoffDefinition
from ekiden.agents.definition import WrittenCondition
from ekiden.core.handoffs import HandoffTrigger, TriggerType
from ekiden.core.profile import Budget, Confirmation

Good = Callable[..., AgentDefinition]
Faults = Callable[..., list[Any]]
Read = Callable[..., AgentFile]

CONDITION = HandoffTrigger(type="condition", expression="error_count > 3")


def edge(good: Good, keys: str) -> HandoffDefinition:
    """What one entry becomes."""
    (made,) = good(f"name: x\nhandoffs: [{{to: y, {keys}}}]").handoffs
    return made


def test_a_handoff_needs_only_a_target(good: Good) -> None:
    (made,) = good("name: x\nhandoffs: [y]").handoffs
    assert made == HandoffDefinition(to="y", line=3, column=12)
    assert (made.when, made.policy, made.timeout_s) == ("manual", "graceful", 300.0)
    assert (made.trigger, made.condition, made.confirm, made.budget) == (None, None, None, None)


@pytest.mark.parametrize(
    ("trigger", "made"),
    [
        ("{type: condition, expression: error_count > 3}", CONDITION),
        ("error_count > 3", CONDITION),
        ("{type: event, event: 交班}", HandoffTrigger(type="event", event="交班")),
        ("{type: explicit}", HandoffTrigger(type="explicit")),
        ("{type: timeout, seconds: 2.5}", HandoffTrigger(type="timeout", seconds=2.5)),
        ("{type: error}", HandoffTrigger(type="error")),
        ("{type: error, errors: [A, b.c]}", HandoffTrigger(type="error", errors=("A", "b.c"))),
        (
            "{type: capability, capabilities: [sql], priority: -2}",
            HandoffTrigger(type="capability", capabilities=("sql",), priority=-2),
        ),
    ],
)
def test_a_trigger_of_every_type(trigger: str, made: HandoffTrigger, good: Good) -> None:
    assert edge(good, f"trigger: {trigger}").trigger == made


def test_the_error_for_an_unknown_trigger_type_lists_every_type(read: Read) -> None:
    (problem,) = read("name: x\nhandoffs: [{to: y, trigger: {type: zzz}}]").problems
    assert problem.message.endswith(f"one of {', '.join(get_args(TriggerType))}, not 'zzz'")


@pytest.mark.parametrize(
    ("keys", "when"),
    [
        ("trigger: error_count > 3", "auto"),
        ("when: auto", "manual"),
        ("when: conditional", "manual"),
        ("trigger: {type: explicit}", "manual"),
        ("when: manual, trigger: error_count > 3", "manual"),
        ("when: auto, trigger: {type: explicit}", "auto"),
        ("description: d", "manual"),
    ],
)
def test_a_trigger_makes_the_handoff_automatic_unless_the_file_says_otherwise(
    keys: str, when: str, good: Good
) -> None:
    assert edge(good, keys).when == when


def test_the_condition_of_a_trigger_is_used_where_one_is_needed(good: Good) -> None:
    offered = edge(good, "when: conditional, trigger: error_count > 3")
    assert (offered.when, offered.condition) == ("conditional", "error_count > 3")
    assert offered.trigger is None, "it is offered while the condition holds, and not made by it"
    checked = edge(good, "policy: conditional, trigger: error_count > 3")
    assert (checked.when, checked.condition) == ("auto", "error_count > 3")
    assert checked.trigger == CONDITION


def test_an_explicit_condition_overrides_that_of_a_trigger(good: Good) -> None:
    made = edge(good, "when: conditional, condition: depth < 2, trigger: error_count > 3")
    assert (made.condition, made.trigger) == ("depth < 2", CONDITION)


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("true", Confirmation()),
        ("false", None),
        ("{}", Confirmation()),
        ("{timeout: 5}", Confirmation(timeout_s=5.0)),
        ("{promptTemplate: 'Now?'}", Confirmation(prompt_template="Now?")),
    ],
)
def test_a_handoff_may_require_confirmation_by_a_person(
    said: str, made: Confirmation | None, good: Good
) -> None:
    assert edge(good, f"confirm: {said}").confirm == made


def test_budget_return_completes_and_capabilities_are_read(good: Good) -> None:
    assert edge(good, "budget: {tokens: 5}").budget == Budget(tokens=5)
    assert edge(good, "budget: {}").budget is None
    assert [edge(good, f"allow_return: {said}").allow_return for said in ("true", "always")] == [
        True,
        "always",
    ]
    assert edge(good, "allow_return: 'always'").allow_return == "always"
    assert edge(good, "timeout: 7").timeout_s == 7.0
    assert edge(good, "completes: result").completes == "result"
    assert edge(good, "capabilities: [a, b]").capabilities == ("a", "b")


@pytest.mark.parametrize("role", ["support", "second-line_2", "客服", "поддержка", "a" * 100])
def test_a_handoff_target_may_be_people_of_a_role(role: str, good: Good) -> None:
    assert good(f"name: x\nhandoffs: ['person:{role}']").handoffs[0].to == f"person:{role}"


def test_a_handoff_target_may_be_the_best_match(good: Good) -> None:
    (made,) = good("name: x\nhandoffs:\n  - to: '*'\n    capabilities: [sql]").handoffs
    assert (made.to, made.capabilities) == ("*", ("sql",))


@pytest.mark.parametrize(
    ("entry", "code", "column"),
    [
        ("'*'", "bad_target", 12),
        ("'person:'", "bad_target", 12),
        ("'person:a b'", "bad_target", 12),
        ("'person:-a'", "bad_target", 12),
        (f"'person:{'a' * 101}'", "bad_target", 12),
        ("{to: 'person: support'}", "bad_target", 17),
        ("{to: '*'}", "missing_key", 17),
        ("{to: '*', capabilities: []}", "missing_key", 17),
        ("{to: '*', capabilities: x}", "wrong_type", 36),
        ("{to: y, policy: conditional}", "missing_key", 28),
        ("{to: y, policy: conditional, trigger: {type: explicit}}", "missing_key", 28),
        ("{to: y, condition: a > 1}", "no_effect", 31),
        ("{to: y, trigger: {type: event, event: e}, condition: a > 1}", "no_effect", 65),
        ("{to: y, when: conditional, condition: 5}", "wrong_type", 50),
        ("{to: y, when: conditional, condition: ''}", "empty_value", 50),
        ("{to: y, when: auto, trigger: {event: e}}", "missing_key", 41),
        ("{to: y, trigger: {type: event}}", "missing_key", 29),
        ("{to: y, trigger: {type: event, event: [e]}}", "wrong_type", 50),
        ("{to: y, trigger: {type: event, event: e, name: f}}", "unknown_key", 53),
        ("{to: y, trigger: {type: event, event: e, event: f}}", "duplicate_key", 53),
        ("{to: y, trigger: {type: event, event: e, seconds: 5}}", "unknown_key", 53),
        ("{to: y, trigger: {type: timeout, seconds: 0}}", "out_of_range", 54),
        ("{to: y, trigger: {type: condition}}", "missing_key", 29),
        ("{to: y, trigger: {type: capability, capabilities: []}}", "empty_value", 62),
        ("{to: y, trigger: {type: error, errors: ModelError}}", "wrong_type", 51),
        ("{to: y, trigger: {type: explicit, priority: 0.5}}", "wrong_type", 56),
        ("{to: y, trigger: [a]}", "wrong_type", 29),
        ("{to: y, trigger: ~}", "wrong_type", 29),
        ("{to: y, confirm: please}", "wrong_type", 29),
        ("{to: y, confirm: {timeout: 0}}", "out_of_range", 39),
        ("{to: y, confirm: {prompt_template: '{x}'}}", "bad_template", 47),
        ("{to: y, timeout: 0}", "out_of_range", 29),
        ("{to: y, budget: 5}", "wrong_type", 28),
        ("{to: y, budget: {tokens: 0}}", "out_of_range", 37),
        ("{to: y, budget: {tokens: 1.5}}", "wrong_type", 37),
        ("{to: y, budget: {money: -1}}", "out_of_range", 36),
        ("{to: y, completes: soon}", "unknown_value", 31),
        ("{to: y, restrict_tools: 1}", "wrong_type", 36),
        ("{to: y, allow_return: never}", "wrong_type", 34),
        ("{to: y, capabilities: [5]}", "wrong_type", 35),
    ],
)
def test_each_handoff_fault_has_a_code_and_a_place(
    entry: str, code: str, column: int, faults: Faults
) -> None:
    assert faults(f"handoffs: [{entry}]") == [(code, 3, column)]


@pytest.mark.parametrize(
    ("front", "code"),
    [("available: sometimes", "wrong_type"), ("max_sessions: 0", "out_of_range")],
)
def test_accepts_handoffs_is_checked(front: str, code: str, faults: Faults) -> None:
    assert [each[0] for each in faults(front)] == [code]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{to: y, trigger: {type: event, evnt: e}}", "did you mean 'event'?"),
        ("{to: y, trigger: {type: evnt, event: e}}", "did you mean 'event'?"),
        ("{to: y, trigger: {type: event, event: e, errors: []}}", "it belongs to error"),
        ("{to: y, trigger: {type: timeout}}", "add it, such as seconds: 60"),
        ("{to: y, trigger: {type: capability}}", "such as capabilities: [python]"),
        ("{to: y, condtion: a > 1}", "did you mean 'condition'?"),
        ("{to: y, seconds: 5}", "it belongs under `trigger:`, indented"),
        ("{to: y, condition: a}", "add when: conditional to offer the handoff while it holds"),
        ("'*'", '{to: "*", capabilities: [python]}'),
        ("'person:second line'", "as person:second-line"),
        ("{to: y, allow_return: never}", "must be true, false or always, not 'never'"),
    ],
)
def test_each_handoff_fault_has_advice(entry: str, words: str, read: Read) -> None:
    problems = read(f"name: x\nhandoffs: [{entry}]").problems
    assert any(words in problem.message for problem in problems), problems


def test_all_faults_of_a_handoff_are_reported_at_once(faults: Faults) -> None:
    assert faults(
        "handoffs:\n"
        "  - to: 'person:'\n"
        "    when: conditional\n"
        "    trigger: {type: timeout, expression: a, zzz: 1}\n"
        "    budget: {tokens: -1}\n"
        "  - to: '*'\n"
        "    policy: conditional\n"
        "    allow_return: 1\n"
    ) == [
        ("bad_target", 4, 9),
        ("missing_key", 6, 14),
        ("unknown_key", 6, 30),
        ("unknown_key", 6, 45),
        ("out_of_range", 7, 22),
        ("missing_key", 8, 9),
        ("missing_key", 9, 13),
        ("wrong_type", 10, 19),
    ]


def test_a_faulty_trigger_causes_no_further_errors(faults: Faults) -> None:
    assert faults("handoffs: [{to: y, when: auto, trigger: {type: evnt}}]") == [
        ("unknown_value", 3, 48)
    ]
    assert faults("handoffs: [{to: y, policy: conditional, trigger: {type: 1}}]") == [
        ("unknown_value", 3, 57)
    ]
    assert faults("handoffs: [{to: y, when: sometimes, condition: a > 1}]") == [
        ("unknown_value", 3, 26)
    ]


WAYS_TO_WRITE_IT = {
    "plain": ("condition: depth < 3 and ?", 3, 5 + 25),
    "single quotes": ("condition: 'plan == \"it''s\" and ?'", 3, 5 + 32),
    "double quotes": ('condition: "plan == \\"a\\" and ?"', 3, 5 + 30),
    "a block": ("condition: |\n      depth < 3\n      and ?\n", 5, 11),
    "a folded block": ("condition: >-\n      depth < 3\n\n        and ?", 6, 13),
    "several lines": ("condition: depth < 3\n      and  ?", 4, 12),
    "in front of a comment": ("condition: depth < ? # deep", 3, 24),
    "after other scripts": ("condition: '套餐 == \"高级\" and ?'", 3, 17 + 15),
    "escapes that hide the place": ('condition: "\\x64epth < ?"', 3, 16),
}


@pytest.mark.parametrize("way", WAYS_TO_WRITE_IT)
def test_a_position_in_a_condition_maps_to_its_place_in_the_file(way: str, read: Read) -> None:
    written, line, column = WAYS_TO_WRITE_IT[way]
    front = f"handoffs:\n  - {written}\n    to: y\n    when: conditional\nname: x"
    file = read(front)
    assert file.definition is not None
    (condition,) = file.definition.conditions
    assert condition.place(condition.text.index("?")) == (line, column)


def test_the_end_of_a_condition_maps_behind_its_last_character(read: Read) -> None:
    front = "name: x\nhandoffs:\n  - to: y\n    when: conditional\n    condition: depth <   "
    file = read(front)
    assert file.definition is not None
    (condition,) = file.definition.conditions
    assert (condition.text, condition.at) == ("depth <", "handoffs[0].condition")
    assert condition.place(len(condition.text)) == (6, 23)
    assert condition.place(0) == (6, 16)


def test_conditions_of_a_file_with_faults_are_kept(read: Read) -> None:
    file = read(
        "name: x\nzzz: 1\nhandoffs: [{to: y, trigger: {type: event, expression: a >}}, "
        "{trigger: b >}]"
    )
    assert file.partial is not None
    assert [(each.at, each.text) for each in file.partial.conditions] == [
        ("handoffs[0].trigger.expression", "a >"),
        ("handoffs[1].trigger", "b >"),
    ]


@given(front=st.text(max_size=40), text=st.text(max_size=20), position=st.integers(0, 25))
def test_a_mapped_place_is_never_before_the_condition(front: str, text: str, position: int) -> None:
    condition = WrittenCondition(at="x", text=text, line=2, column=1, front=front)
    assert condition.place(position) >= (2, 1)


def test_a_condition_without_file_text_has_one_place() -> None:
    condition = WrittenCondition(at="x", text="depth <", line=7, column=3)
    assert condition.place(5) == (7, 3)
