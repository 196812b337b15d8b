"""Selects items of a conversation. Items that need each other stay together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from ekiden.core.conversation.model import Item, to_input_item, user_message
from ekiden.core.conversation.run_items import RunItemBase, raw_field
from ekiden.core.handoffs import HandoffInputData

Section: TypeAlias = Literal["input_history", "pre_handoff_items", "new_items", "input_items"]


class VisibleItem(NamedTuple):
    """One item of the conversation that the target would see."""

    section: Section
    value: Any
    """A plain item of the history, or a run item."""

    @property
    def raw(self) -> Any:
        """The item: a plain dict, or an object of the `openai` package."""
        return self.value.raw_item if isinstance(self.value, RunItemBase) else self.value

    @property
    def kind(self) -> str:
        """The item's type. An item without a type, such as ``{"role": …}``, is a message."""
        return raw_field(self.raw, "type") or "message"

    @property
    def item(self) -> Item:
        """The item as a plain dict, as the target gets it."""
        value = self.value
        item: Item = (
            value.to_input_item() if isinstance(value, RunItemBase) else to_input_item(value)
        )
        return item

    def with_item(self, item: Item) -> VisibleItem:
        """A copy with another item, in the same section and of the same agent."""
        if not isinstance(self.value, RunItemBase):
            return self._replace(value=item)
        run_item = copy.copy(self.value)
        run_item.raw_item = item
        return self._replace(value=run_item)


def visible_entries(data: HandoffInputData) -> list[VisibleItem]:
    """The items that the target would see, in order: history, earlier items, last turn."""
    last: Section = "new_items" if data.input_items is None else "input_items"
    entries = [VisibleItem("input_history", item) for item in history_items(data)]
    entries += [VisibleItem("pre_handoff_items", item) for item in data.pre_handoff_items]
    entries += [VisibleItem(last, item) for item in getattr(data, last)]
    return entries


def history_items(data: HandoffInputData) -> tuple[Item, ...]:
    """The history as items; a string becomes one user message."""
    history = data.input_history
    return (user_message(history),) if isinstance(history, str) else history


def with_entries(data: HandoffInputData, entries: Sequence[VisibleItem]) -> HandoffInputData:
    """A copy of `data` with exactly these entries. Unchanged sections stay the same objects."""
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
    """A copy of `data` with only the units that `choose` returns, in their original order."""
    entries = visible_entries(data)
    kept = sorted(index for unit in choose(units(entries)) for index in unit)
    return with_entries(data, [entries[index] for index in kept])


def units(entries: Sequence[VisibleItem]) -> list[list[int]]:
    """The positions of `entries` in units that must stay together, ordered by first position.

    A call and its outputs are one unit. Reasoning is in the same unit as the message or the calls
    after it, because providers reject either of them alone.
    """
    unit_of = list(range(len(entries)))

    def find(index: int) -> int:
        while unit_of[index] != index:
            unit_of[index] = unit_of[unit_of[index]]
            index = unit_of[index]
        return index

    for one, other in (*_call_pairs(entries), *_reasoning_pairs(entries)):
        first, second = sorted((find(one), find(other)))
        unit_of[second] = first
    found: dict[int, list[int]] = {}
    for index in range(len(entries)):
        found.setdefault(find(index), []).append(index)
    return list(found.values())


def paired(items: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """The items without unpaired items, which providers reject. Unpaired items are outputs without
    an earlier call, calls without an output, and reasoning that led only to such items.

    Also returns a note for each removed output or call.
    """
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
    removed = set(notes)
    for unit in units(entries):
        if all(each in notes or entries[each].kind == "reasoning" for each in unit):
            removed.update(unit)
    kept = [item for index, item in enumerate(items) if index not in removed]
    return kept, [notes[index] for index in sorted(notes)]


_ANSWERED = frozenset({
    "apply_patch_call", "computer_call", "custom_tool_call", "function_call", "local_shell_call",
    "shell_call",
})  # fmt: skip
"""Types of calls whose outputs are separate items."""


def _call_pairs(entries: Sequence[VisibleItem]) -> list[tuple[int, int]]:
    """The positions of calls and their outputs as pairs."""
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
    """The key that a call and its output have in common; `None` for other items."""
    kind = raw_field(raw, "type") or "message"
    if kind == "mcp_approval_response":
        call_id = raw_field(raw, "approval_request_id")
        return ("mcp_approval_request", call_id) if call_id else None
    call_id = raw_field(raw, "call_id") or raw_field(raw, "id")
    if not call_id or not is_tool_kind(kind):
        return None
    return kind.removesuffix("_output"), call_id


def _reasoning_pairs(entries: Sequence[VisibleItem]) -> list[tuple[int, int]]:
    """The positions of reasoning items, each with the message or call that follows from it."""
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
            pairs += [(reasoning, index) for reasoning in waiting]
            # One reasoning item is enough to link the next calls to the same unit.
            waiting, following_calls = waiting[:1], True
        else:
            # The reasoning already belongs to the calls before this item.
            if not following_calls:
                pairs += [(reasoning, index) for reasoning in waiting]
            waiting, following_calls = [], False
    return pairs


def is_tool_kind(kind: str) -> bool:
    """Whether items of this type are tool calls, outputs or approvals."""
    return kind.endswith(("_call", "_call_output")) or kind in _TOOL_KINDS


_TOOL_KINDS = frozenset({
    "program", "program_output", "tool_search_output", "mcp_list_tools", "mcp_approval_request",
    "mcp_approval_response",
})  # fmt: skip
