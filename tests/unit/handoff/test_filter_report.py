"""What a filter did, read from the conversation before and after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ekiden.core.conversation.model import (
    Item,
    assistant_message,
    function_call,
    function_output,
    user_message,
)
from ekiden.core.handoffs import HandoffInputData
from ekiden.handoff import (
    HandoffFilter,
    keep_first_and_last,
    keep_last,
    nest_history,
    redact,
    remove_all_tools,
    shorten_tool_outputs,
    summarise,
)
from ekiden.handoff.report import FilterReport, filter_report

Make = Callable[..., HandoffInputData]


def seen(data: Any) -> list[Item]:
    last = data.new_items if data.input_items is None else data.input_items
    produced = (*data.pre_handoff_items, *last)
    items = [*data.input_history, *(item.to_input_item() for item in produced)]
    stored: list[Item] = json.loads(json.dumps(items))
    return stored


def talk() -> tuple[list[Item], list[Item], list[Item]]:
    history = [
        user_message("hello"),
        user_message("call 13812345678"),
        assistant_message("ok"),
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        function_call("1", "look", '{"mail": "ana@example.com"}'),
        function_output("1", "z" * 500),
        user_message("ok"),
    ]
    before = [assistant_message("You get 40 back.")]
    turn = [function_call("9", "transfer_to_b", "{}"), function_output("9", "done")]
    return history, before, turn


def fates(report: FilterReport) -> list[str]:
    return [row.fate for row in report.rows]


def report_of(make_data: Make, each: HandoffFilter) -> FilterReport:
    data = make_data(*talk())
    return filter_report(seen(data), seen(each(data)))


def test_without_a_change_every_item_is_reported_as_kept(make_data: Make) -> None:
    items = seen(make_data(*talk()))
    report = filter_report(items, items)
    assert report.counts == {"kept": 10, "changed": 0, "summarised": 0, "dropped": 0, "new": 0}
    assert [row.into for row in report.rows] == list(range(10))
    assert report.chars_before == report.chars_after
    assert filter_report([], []).counts["kept"] == 0


def test_removed_items_are_reported_as_dropped(make_data: Make) -> None:
    report = report_of(make_data, keep_last(3))
    assert fates(report) == ["dropped"] * 6 + ["kept"] * 4
    assert [row.into for row in report.rows[6:]] == [0, 1, 2, 3]
    assert fates(report_of(make_data, keep_first_and_last(1, 2))) == [
        "kept", *["dropped"] * 6, *["kept"] * 3,
    ]  # fmt: skip
    assert fates(report_of(make_data, remove_all_tools)) == [
        "kept", "kept", "kept", "dropped", "dropped", "dropped", "kept", "kept", "dropped",
        "dropped",
    ]  # fmt: skip


def test_masked_or_shortened_items_are_reported_as_changed(make_data: Make) -> None:
    report = report_of(make_data, redact() | shorten_tool_outputs(100))
    changed = [row for row in report.rows if row.fate == "changed"]
    assert [(row.index, row.chars, row.chars_after) for row in changed] == [
        (1, 16, 12), (4, 27, 19), (5, 500, 100),
    ]  # fmt: skip
    assert report.counts["kept"] == 7
    assert not report.new


def test_dropped_and_masked_messages_are_matched_to_their_originals(make_data: Make) -> None:
    items = [user_message(f"my number is 1381234567{number}, thanks") for number in range(6)]
    items.insert(4, user_message("13812345678"))
    data = make_data(items)
    report = filter_report(seen(data), seen((keep_last(3) | redact())(data)))
    assert fates(report) == ["dropped"] * 4 + ["changed"] * 3
    starred = filter_report(seen(data), seen((keep_last(3) | redact(mask="***"))(data)))
    assert fates(starred) == fates(report)
    other = filter_report(seen(data), seen((keep_last(2) | redact(mask="XXX"))(data)))
    assert fates(other) == ["dropped"] * 5 + ["changed"] * 2


def test_summarised_items_are_reported_as_part_of_the_summary(make_data: Make) -> None:
    report = report_of(make_data, summarise(2))
    assert fates(report) == ["summarised"] * 7 + ["kept"] * 3
    assert {row.into for row in report.rows[:7]} == {0}
    assert [(row.index, row.kind) for row in report.new] == [(0, "summary")]


def test_items_dropped_before_the_summary_are_not_reported_as_summarised(make_data: Make) -> None:
    report = report_of(make_data, keep_last(5) | summarise(2))
    assert fates(report) == [
        "dropped", "dropped", *["summarised"] * 5, *["kept"] * 3,
    ]  # fmt: skip
    report = report_of(make_data, redact() | summarise(2) | keep_last(2))
    assert fates(report) == ["dropped"] * 7 + ["kept"] * 3


def test_a_summary_of_parallel_calls_counts_their_late_outputs(make_data: Make) -> None:
    items = [
        function_call("1", "a", "{}"), function_call("2", "b", "{}"),
        function_output("2", "two"), function_output("1", "one"),
    ]  # fmt: skip
    data = make_data(items)
    report = filter_report(seen(data), seen(summarise(1)(data)))
    assert fates(report) == ["summarised", "kept", "kept", "summarised"]


def test_items_in_a_nested_history_are_reported_as_summarised(make_data: Make) -> None:
    report = report_of(make_data, keep_last(5) | redact() | nest_history())
    assert fates(report) == ["dropped"] * 2 + ["summarised"] * 8
    assert [row.kind for row in report.new] == ["nested", "nested"]
    assert {row.into for row in report.rows[2:8]} == {0}
    assert {row.into for row in report.rows[8:]} == {1}


def test_a_masked_nested_history_is_reported_as_changed(make_data: Make) -> None:
    nested = nest_history()(make_data(*talk()))
    report = filter_report(seen(nested), seen(redact()(nested)))
    assert fates(report) == ["changed", "kept"]


def test_an_older_history_inside_a_new_one_is_reported_as_summarised(make_data: Make) -> None:
    once = nest_history()(make_data(*talk()))
    assert isinstance(once, HandoffInputData)
    more = once.clone(input_history=(*once.input_history, user_message("more")))
    report = filter_report(seen(more), seen(nest_history()(more)))
    assert fates(report) == ["summarised"] * 3
    assert [row.kind for row in report.new] == ["nested"]


def test_other_new_items_are_reported_as_added(make_data: Make) -> None:
    items = [user_message("a"), user_message("b")]
    report = filter_report(items, [items[0], user_message("something else"), items[1]])
    assert report.counts["kept"] == 2
    assert [(row.index, row.kind, row.label) for row in report.new] == [
        (1, "added", "user: something else")
    ]


def test_report_labels_are_short_and_show_nothing_sensitive() -> None:
    items: list[Item] = [
        user_message("x" * 30 + " 13812345678 " + "y" * 300),
        function_call("1", "look", '{"mail": "ana@example.com"}'),
        {"type": "web_search_call", "id": "w", "action": {"query": "x"}},
        {"type": "shell_call_output", "call_id": "1", "output": ["a\nb", {"stdout": "z"}, 5]},
        {"type": "reasoning", "summary": [], "content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]},
        {"type": "odd", "output": {1, 2}},
        {},
    ]
    labels = [row.label for row in filter_report(items, []).rows]
    assert labels[0].startswith("user: " + "x" * 30 + " [phone] yy")
    assert len(labels[0]) <= 70
    assert labels[1:] == [
        'function_call look: {"mail": "[email]"}',
        'web_search_call: {"query":"x"}',
        "shell_call_output: a b",
        "reasoning",
        "assistant: No",
        "odd: {1, 2}",
        "item",
    ]


def test_a_filter_report_can_be_serialized_to_json(make_data: Make) -> None:
    report = report_of(make_data, summarise(2))
    told = json.loads(json.dumps(report.to_json()))
    assert told["counts"] == report.counts
    assert told["rows"][0] == {
        "index": 0, "label": "user: hello", "fate": "summarised", "into": 0, "chars": 5,
        "chars_after": 0,
    }  # fmt: skip
    assert told["new"][0]["kind"] == "summary"


@pytest.mark.slow
@pytest.mark.parametrize(
    "each", [keep_last(2_000), redact(), summarise(100), nest_history(), remove_all_tools]
)
def test_a_filter_report_of_many_items_takes_linear_time(
    make_data: Make, each: HandoffFilter
) -> None:
    items: list[Item] = []
    for number in range(1_250):
        items += [
            user_message(f"call 138{number:08} please"),
            assistant_message("ok"),
            function_call(str(number), "look", '{"n": 1}'),
            function_output(str(number), "found"),
        ]
    data = make_data(items)
    after = seen(each(data))
    report = filter_report(items, after)
    assert len(report.rows) == 5_000
