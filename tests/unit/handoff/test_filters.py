"""Filters: what the target sees is shorter, and never torn."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.core.conversation.model import (
    Item,
    assistant_message,
    function_call,
    function_output,
    to_items,
    user_message,
)
from ekiden.core.conversation.run_items import ToolCallOutputItem
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffInputData
from ekiden.handoff import (
    compose,
    keep_first_and_last,
    keep_last,
    nest_handoff_history,
    remove_all_tools,
    shorten_tool_outputs,
)
from ekiden.handoff.filters import SyncFilter

Make = Callable[..., HandoffInputData]


def seen(data: HandoffInputData) -> list[Item]:
    """What the target would be given."""
    last = data.new_items if data.input_items is None else data.input_items
    produced = (*data.pre_handoff_items, *last)
    return to_items(data.input_history) + [item.to_input_item() for item in produced]


def thought(number: int) -> Item:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": []}


_ITEMS = st.one_of(
    st.builds(user_message, st.text(max_size=12)),
    st.builds(assistant_message, st.text(max_size=12)),
    st.builds(thought, st.integers(0, 3)),
    st.builds(function_call, st.sampled_from("abcd"), st.just("look"), st.just("{}")),
    st.builds(function_output, st.sampled_from("abcd"), st.text(max_size=300)),
)
_TALKS = st.tuples(*[st.lists(_ITEMS, max_size=8)] * 3)
_COUNTS = st.integers(0, 8)
_FILTERS: st.SearchStrategy[SyncFilter] = st.one_of(
    st.builds(keep_last, _COUNTS),
    st.builds(keep_first_and_last, _COUNTS, _COUNTS),
    st.just(remove_all_tools),
    st.builds(shorten_tool_outputs, st.integers(64, 200)),
)


def halves(items: list[Item]) -> dict[str, set[str]]:
    """Which kinds of item stand under each call id."""
    found: dict[str, set[str]] = {}
    for item in items:
        if "call_id" in item:
            found.setdefault(item["call_id"], set()).add(item["type"])
    return found


def followers(items: list[Item]) -> dict[int, Any]:
    """For each thought, by identity, what kind of item comes next after thoughts."""
    found = {}
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            rest = [one for one in items[index:] if one.get("type") != "reasoning"]
            found[id(item)] = rest[0] if rest else None
    return found


@settings(deadline=None)
@given(talk=_TALKS, chosen=st.lists(_FILTERS, min_size=1, max_size=3))
def test_no_chain_of_filters_separates_a_call_from_its_output(
    make_data: Make, talk: tuple[list[Item], ...], chosen: list[SyncFilter]
) -> None:
    data = make_data(*talk)
    before = halves(seen(data))
    filtered = compose(*chosen)(data)
    assert isinstance(filtered, HandoffInputData)
    after = halves(seen(filtered))
    for call_id, kinds in after.items():
        assert kinds == before[call_id]


@settings(deadline=None)
@given(talk=_TALKS, kept=_COUNTS, first=_COUNTS)
def test_keeping_some_changes_neither_the_items_nor_their_order(
    make_data: Make, talk: tuple[list[Item], ...], kept: int, first: int
) -> None:
    data = make_data(*talk)
    whole = seen(data)
    for filtered in (keep_last(kept)(data), keep_first_and_last(first, kept)(data)):
        rest = iter(whole)
        assert all(any(item is other for other in rest) for item in seen(filtered))


@settings(deadline=None)
@given(talk=_TALKS, kept=_COUNTS)
def test_reasoning_is_kept_only_with_the_item_that_follows_it(
    make_data: Make, talk: tuple[list[Item], ...], kept: int
) -> None:
    # Each thought is made one object of its own, so that it can be told from its equals.
    items = [dict(item) for section in talk for item in section]
    data = make_data(items)
    before, after = followers(items), followers(seen(keep_last(kept)(data)))
    for which, follower in after.items():
        assert follower is before[which]


@settings(deadline=None)
@given(talk=_TALKS, kept=_COUNTS)
def test_filtering_twice_is_filtering_once(
    make_data: Make, talk: tuple[list[Item], ...], kept: int
) -> None:
    data = make_data(*talk)
    for each in (keep_last(kept), remove_all_tools, shorten_tool_outputs(64)):
        once = each(data)
        assert seen(each(once)) == seen(once)


@settings(deadline=None)
@given(talk=_TALKS, chosen=_FILTERS)
def test_a_filter_never_changes_what_it_is_given(
    make_data: Make, talk: tuple[list[Item], ...], chosen: SyncFilter
) -> None:
    data = make_data(*talk)
    before = deepcopy(seen(data))
    chosen(data)
    assert seen(data) == before


@settings(deadline=None)
@given(talk=_TALKS, limit=st.integers(64, 200))
def test_shortened_outputs_keep_to_the_limit_and_everything_else_stays(
    make_data: Make, talk: tuple[list[Item], ...], limit: int
) -> None:
    data = make_data(*talk)
    whole, short = seen(data), seen(shorten_tool_outputs(limit)(data))
    assert len(short) == len(whole)
    for before, after in zip(whole, short, strict=True):
        if before.get("type") == "function_call_output":
            assert len(after["output"]) <= limit
            assert (after == before) == (len(before["output"]) <= limit)
        else:
            assert after is before


def test_keep_last_counts_a_call_and_its_output_as_one(make_data: Make) -> None:
    data = make_data(
        [user_message("hello")],
        [assistant_message("a moment")],
        [function_call("1", "transfer_to_billing", "{}"), function_output("1", "done")],
    )
    assert seen(keep_last(1)(data)) == seen(data)[2:]
    assert seen(keep_last(2)(data)) == seen(data)[1:]
    assert seen(keep_last(0)(data)) == []
    assert seen(keep_first_and_last(1, 1)(data)) == [seen(data)[0], *seen(data)[2:]]


def test_calls_side_by_side_are_kept_with_their_own_outputs(make_data: Make) -> None:
    items = [
        function_call("1", "a", "{}"),
        function_call("2", "b", "{}"),
        function_output("1", "one"),
        function_output("2", "two"),
    ]
    assert seen(keep_last(1)(make_data(items))) == [items[1], items[3]]


def test_a_history_that_is_text_counts_as_one_message(make_data: Make) -> None:
    data = make_data("hello", [assistant_message("hi")])
    assert keep_last(2)(data).input_history == "hello"
    assert keep_last(1)(data).input_history == ()


def test_filters_apply_to_the_items_that_replace_the_last_turn(make_data: Make) -> None:
    data = make_data([], [], [assistant_message("old")])
    shown = data.clone(input_items=make_data([], [], [assistant_message("new")]).new_items)
    filtered = keep_last(0)(shown)
    assert filtered.input_items == ()
    assert filtered.new_items == data.new_items


def test_content_parts_and_shell_outputs_are_shortened(make_data: Make) -> None:
    long = "x" * 500
    data = make_data(
        [
            function_output("1", [{"type": "input_text", "text": long}, {"type": "input_image"}]),
            {"type": "shell_call_output", "call_id": "2", "output": [{"stdout": long}]},
        ],
        [function_output("3", long)],
    )
    parts, shell, plain = seen(shorten_tool_outputs(100)(data))
    assert len(parts["output"][0]["text"]) == 100
    assert parts["output"][1] == {"type": "input_image"}
    assert len(shell["output"][0]["stdout"]) == 100
    assert "400 or more characters left out" in plain["output"]


def test_shortening_keeps_what_the_tool_returned_for_people(make_data: Make) -> None:
    data = make_data([], [function_output("1", "x" * 500)])
    (item,) = data.pre_handoff_items
    assert isinstance(item, ToolCallOutputItem)
    item.output = "x" * 500
    (short,) = shorten_tool_outputs(100)(data).pre_handoff_items
    assert isinstance(short, ToolCallOutputItem)
    assert short.output == item.output
    assert short.agent is item.agent


async def test_filters_are_chained_from_left_to_right(make_data: Make) -> None:
    def greet(data: HandoffInputData) -> HandoffInputData:
        return data.clone(input_history=(*data.input_history, user_message("x")))

    data = make_data([user_message("a"), user_message("b")])
    greeted, cut = (keep_last(1) | greet)(data), (greet | keep_last(1))(data)
    assert isinstance(greeted, HandoffInputData)
    assert isinstance(cut, HandoffInputData)
    assert seen(greeted) == [user_message("b"), user_message("x")]
    assert seen(cut) == [user_message("x")]
    assert repr(keep_last(1) | keep_last(2) | remove_all_tools) == (
        "keep_last(1) | keep_last(2) | remove_all_tools"
    )


async def test_a_chain_with_an_async_filter_is_awaited(make_data: Make) -> None:
    async def slow(data: HandoffInputData) -> HandoffInputData:
        return data.clone(input_history=())

    data = make_data([user_message("a")], [assistant_message("b"), assistant_message("c")])
    chained = compose(keep_last(3), slow, keep_last(1), slow)(data)
    assert not isinstance(chained, HandoffInputData)
    assert seen(await chained) == [assistant_message("c")]


def test_an_empty_chain_changes_nothing(make_data: Make) -> None:
    data = make_data([user_message("a")])
    assert compose()(data) is data


def test_nesting_can_be_chained(make_data: Make) -> None:
    data = make_data([user_message("a"), user_message("b")])
    nested = (keep_last(1) | nest_handoff_history)(data)
    assert isinstance(nested, HandoffInputData)
    message = nested.input_history[0]
    assert isinstance(message, dict)
    assert "1. user: b\n" in message["content"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: keep_last(-1),
        lambda: keep_first_and_last(1, -1),
        lambda: shorten_tool_outputs(10),
        lambda: compose("no filter"),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_filter_is_refused_when_it_is_created(
    make: Callable[[], object],
) -> None:
    with pytest.raises(UserError):
        make()


def test_an_mcp_approval_is_kept_only_with_its_request(make_data: Make) -> None:
    request = {"type": "mcp_approval_request", "id": "1", "name": "pay"}
    answer = {"type": "mcp_approval_response", "approval_request_id": "1", "approve": True}
    data = make_data([request, user_message("yes"), answer])
    assert seen(keep_last(1)(data)) == [user_message("yes")]
    assert seen(keep_last(2)(data)) == seen(data)
    assert seen(remove_all_tools(data)) == [user_message("yes")]


def test_text_history_has_no_tools_to_remove(make_data: Make) -> None:
    data = make_data("hello", [function_call("1", "look", "{}")])
    assert remove_all_tools(data).input_history == "hello"
    assert remove_all_tools(data).pre_handoff_items == ()
