"""What belongs together in a conversation, and leaving parts of it out without tearing it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from ekiden.core.conversation.model import Item, to_input_item, user_message
from ekiden.core.conversation.run_items import RunItemBase, raw_field
from ekiden.core.handoffs.handoff import HandoffInputData

Section: TypeAlias = Literal["input_history", "pre_handoff_items", "new_items", "input_items"]


class VisibleItem(NamedTuple):
    """One item of what the target would see."""

    section: Section
    value: Any
    """A plain item of the history, or a run item."""

    @property
    def raw(self) -> Any:
        """The item itself, plain or of the `openai` package."""
        return self.value.raw_item if isinstance(self.value, RunItemBase) else self.value

    @property
    def kind(self) -> str:
        """The item's type; a bare ``{"role": …}`` is a message."""
        return raw_field(self.raw, "type") or "message"

    @property
    def item(self) -> Item:
        """The item as the target is given it."""
        value = self.value
        item: Item = (
            value.to_input_item() if isinstance(value, RunItemBase) else to_input_item(value)
        )
        return item

    def with_item(self, item: Item) -> VisibleItem:
        """This entry with another item in its place; who produced it stays the same."""
        if not isinstance(self.value, RunItemBase):
            return self._replace(value=item)
        run_item = copy.copy(self.value)
        run_item.raw_item = item
        return self._replace(value=run_item)


def visible_entries(data: HandoffInputData) -> list[VisibleItem]:
    """What the target would see, in order: history, earlier items, then the last turn's."""
    last: Section = "new_items" if data.input_items is None else "input_items"
    entries = [VisibleItem("input_history", item) for item in history_items(data)]
    entries += [VisibleItem("pre_handoff_items", item) for item in data.pre_handoff_items]
    entries += [VisibleItem(last, item) for item in getattr(data, last)]
    return entries


def history_items(data: HandoffInputData) -> tuple[Item, ...]:
    """The history as items; a string is one message of the user's."""
    history = data.input_history
    return (user_message(history),) if isinstance(history, str) else history


def with_entries(data: HandoffInputData, entries: Sequence[VisibleItem]) -> HandoffInputData:
    """`data` showing exactly `entries`; sections that stay the same stay the same objects."""
    changes: dict[str, Any] = {}
    last: Section = "new_items" if data.input_items is None else "input_items"
    sections: tuple[Section, ...] = ("input_history", "pre_handoff_items", last)
    for section in sections:
        before = history_items(data) if section == "input_history" else getattr(data, section)
        after = tuple(entry.value for entry in entries if entry.section == section)
        if len(before) != len(after) or any(
            one is not other and one != other for one, other in zip(before, after, strict=True)
        ):
            changes[section] = after
    return data.clone(**changes) if changes else data


def keep_units(
    data: HandoffInputData, choose: Callable[[list[list[int]]], Sequence[list[int]]]
) -> HandoffInputData:
    """`data` with only the units that `choose` picks, in their old order."""
    entries = visible_entries(data)
    kept = sorted(index for unit in choose(units(entries)) for index in unit)
    return with_entries(data, [entries[index] for index in kept])


def units(entries: Sequence[VisibleItem]) -> list[list[int]]:
    """The positions of `entries`, those that need each other together, by their first position.

    A call and its outputs are one unit; reasoning belongs to the message or the calls that follow
    it, because providers refuse one without the other.
    """
    unit_of = list(range(len(entries)))

    def find(index: int) -> int:
        while unit_of[index] != index:
            unit_of[index] = unit_of[unit_of[index]]
            index = unit_of[index]
        return index

    for one, other in (*_answers(entries), *_thoughts(entries)):
        first, second = sorted((find(one), find(other)))
        unit_of[second] = first
    found: dict[int, list[int]] = {}
    for index in range(len(entries)):
        found.setdefault(find(index), []).append(index)
    return list(found.values())


def paired(items: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """The items without outputs that have no call before them, calls that have no output, and
    reasoning that led to these only: no provider takes them. Also says what was left out."""
    waiting: dict[tuple[str, str], int] = {}
    notes: dict[int, str] = {}
    for index, item in enumerate(items):
        kind, key = item.get("type") or "message", call_key(item)
        if kind.removesuffix("_output") not in _ANSWERED:
            continue
        if key is None:
            notes[index] = f"a {kind} without a call_id was left out"
            continue
        if not kind.endswith("_output"):
            if key in waiting:
                notes[index] = f"the repeated call {key[1]!r} was left out"
            waiting.setdefault(key, index)
        elif waiting.pop(key, None) is None:
            notes[index] = f"the output of call {key[1]!r} was left out: its call is not before it"
    for key, index in waiting.items():
        notes[index] = f"the call {key[1]!r} was left out: it has no output"
    if not notes:
        return list(items), []
    entries = [VisibleItem("input_history", item) for item in items]
    gone = set(notes)
    for unit in units(entries):
        if all(each in notes or entries[each].kind == "reasoning" for each in unit):
            gone.update(unit)
    left = [item for index, item in enumerate(items) if index not in gone]
    return left, [notes[index] for index in sorted(notes)]


_ANSWERED = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "shell_call",
    }
)
"""Calls whose outputs are items of their own."""


def _answers(entries: Sequence[VisibleItem]) -> list[tuple[int, int]]:
    """Pairs of a call and what answers it, in whichever order they stand."""
    first: dict[tuple[str, str], int] = {}
    pairs = []
    for index, entry in enumerate(entries):
        key = call_key(entry.raw)
        if key is not None:
            known = first.setdefault(key, index)
            if known != index:
                pairs.append((known, index))
    return pairs


def call_key(raw: Any) -> tuple[str, str] | None:
    """What a call and its output have in common; `None` for other items."""
    kind = raw_field(raw, "type") or "message"
    if kind == "mcp_approval_response":
        call_id = raw_field(raw, "approval_request_id")
        return ("mcp_approval_request", call_id) if call_id else None
    call_id = raw_field(raw, "call_id") or raw_field(raw, "id")
    if not call_id or not is_tool_kind(kind):
        return None
    return kind.removesuffix("_output"), call_id


def _thoughts(entries: Sequence[VisibleItem]) -> list[tuple[int, int]]:
    """Pairs of a reasoning item and what follows from it."""
    pairs = []
    waiting: list[int] = []
    following_calls = False
    for index, entry in enumerate(entries):
        kind = entry.kind
        if kind == "reasoning":
            waiting = [] if following_calls else waiting
            waiting.append(index)
            following_calls = False
        elif kind.endswith("_call"):
            pairs += [(thought, index) for thought in waiting]
            # One of them stands for all, for the calls that come next.
            waiting, following_calls = waiting[:1], True
        else:
            if not following_calls:
                pairs += [(thought, index) for thought in waiting]
            waiting, following_calls = [], False
    return pairs


def is_tool_kind(kind: str) -> bool:
    """Whether an item of this type is about a tool: its call, its output, or its permission."""
    return kind.endswith(("_call", "_call_output")) or kind in _TOOL_KINDS


_TOOL_KINDS = frozenset(
    {
        "program",
        "program_output",
        "tool_search_output",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
    }
)
