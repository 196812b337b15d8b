"""Built-in filters for the target's view of the conversation, and their composition.

A filter is a sync or async function of `HandoffInputData`. The built-in filters can be chained::

    handoff(billing, input_filter=remove_all_tools | keep_last(20))

The built-in filters never separate a tool call from its output, or reasoning from the message or
the calls after it. Filters only change the target's view, not the stored session.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ekiden.core.checks.fields import checked_arguments
from ekiden.core.conversation.model import Item, to_item
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffInputData, HandoffInputFilter
from ekiden.handoff.selection import (
    VisibleItem,
    is_tool_kind,
    keep_units,
    visible_entries,
    with_entries,
)

PlainFilter: TypeAlias = Callable[[HandoffInputData], HandoffInputData]


class HandoffFilter:
    """A filter that can be chained with ``|``: the left filter is applied first."""

    def __call__(self, data: HandoffInputData) -> HandoffInputData | Awaitable[HandoffInputData]:
        raise NotImplementedError

    def filter_texts(self, words: dict[str, Any]) -> dict[str, Any]:
        """Filter the handoff's own texts (reason, context, summary) for the target.

        The target gets these texts in addition to the conversation. So a filter that removes
        sensitive data must also override this method. Most filters do not change these texts.
        """
        return words

    def __or__(self, other: HandoffInputFilter) -> HandoffFilter:
        return compose(self, other)

    def __ror__(self, other: HandoffInputFilter) -> HandoffFilter:
        return compose(other, self)


class SyncFilter(HandoffFilter):
    """A sync function as a filter that can be chained."""

    def __init__(self, function: PlainFilter, name: str) -> None:
        self._function, self._name = function, name

    def __call__(self, data: HandoffInputData) -> HandoffInputData:
        return self._function(data)

    def __repr__(self) -> str:
        return self._name


class Chain(HandoffFilter):
    """Applies filters in order. The result is awaitable only if one of the filters is async."""

    def __init__(self, filters: tuple[HandoffInputFilter, ...]) -> None:
        self.filters = filters

    def __call__(self, data: HandoffInputData) -> HandoffInputData | Awaitable[HandoffInputData]:
        for index, each in enumerate(self.filters):
            result = each(data)
            if inspect.isawaitable(result):
                return self._finish(result, index + 1)
            data = result
        return data

    async def _finish(self, pending: Awaitable[HandoffInputData], start: int) -> HandoffInputData:
        data = await pending
        for each in self.filters[start:]:
            result = each(data)
            data = await result if inspect.isawaitable(result) else result
        return data

    def filter_texts(self, words: dict[str, Any]) -> dict[str, Any]:
        for each in self.filters:
            if isinstance(each, HandoffFilter):
                words = each.filter_texts(words)
        return words

    def __repr__(self) -> str:
        return " | ".join(repr(each) for each in self.filters)


def compose(*filters: HandoffInputFilter) -> HandoffFilter:
    """Combine filters into one filter that applies them in order. Without filters, nothing is
    changed.

    For example::

        handoff(billing, input_filter=compose(remove_all_tools, keep_last(20)))
    """
    flat: list[HandoffInputFilter] = []
    for each in filters:
        if not callable(each):
            raise UserError(f"a filter must be a function, not {type(each).__name__}")
        flat.extend(each.filters if isinstance(each, Chain) else (each,))
    return Chain(tuple(flat))


@checked_arguments
def keep_last(count: int) -> SyncFilter:
    """Keep the last `count` entries. A tool call and its output count as one entry.

    For example::

        handoff(billing, input_filter=keep_last(20))
    """
    check_count(count)
    return SyncFilter(
        lambda data: keep_units(data, lambda units: units[max(len(units) - count, 0) :]),
        f"keep_last({count})",
    )


@checked_arguments
def keep_first_and_last(first: int, last: int) -> SyncFilter:
    """Keep the first `first` and the last `last` entries, and leave out the middle.

    For example::

        handoff(billing, input_filter=keep_first_and_last(1, 10))
    """
    check_count(first)
    check_count(last)

    def choose(units: list[list[int]]) -> list[list[int]]:
        if first + last >= len(units):
            return units
        return units[:first] + units[len(units) - last :]

    return SyncFilter(
        lambda data: keep_units(data, choose), f"keep_first_and_last({first}, {last})"
    )


def _remove_all_tools(data: HandoffInputData) -> HandoffInputData:
    if isinstance(data.input_history, str):
        history: str | tuple[Item, ...] = data.input_history
    else:
        history = tuple(
            item for item in data.input_history if _stays(VisibleItem("input_history", item))
        )
    sections: dict[str, Any] = {
        name: tuple(item for item in getattr(data, name) if _stays(VisibleItem("new_items", item)))
        for name in ("pre_handoff_items", "new_items", "input_items")
        if getattr(data, name) is not None
    }
    return data.clone(input_history=history, **sections)


def _stays(entry: VisibleItem) -> bool:
    kind = entry.kind
    return kind != "reasoning" and not is_tool_kind(kind)


remove_all_tools = SyncFilter(_remove_all_tools, "remove_all_tools")
remove_all_tools.__doc__ = """Leave out calls of tools, transfers included, and their outputs.

For example::

    handoff(billing, input_filter=remove_all_tools)
"""


@checked_arguments
def shorten_tool_outputs(max_chars: int = 2_000) -> SyncFilter:
    """Shorten tool outputs that are longer than `max_chars` characters. A note with the original
    length replaces the middle.

    For example::

        handoff(billing, input_filter=shorten_tool_outputs(500))
    """
    if max_chars < _MIN_CHARS:
        raise UserError(f"max_chars must be at least {_MIN_CHARS}, not {max_chars}")

    def shorten(data: HandoffInputData) -> HandoffInputData:
        return with_entries(data, [_shortened(entry, max_chars) for entry in visible_entries(data)])

    return SyncFilter(shorten, f"shorten_tool_outputs({max_chars})")


_MIN_CHARS = 64
_TEXT_FIELDS = ("output", "result", "text", "stdout", "stderr")


def _shortened(entry: VisibleItem, max_chars: int) -> VisibleItem:
    if not entry.kind.endswith("_output"):
        return entry
    item = to_item(entry.raw)
    cut = _cut_fields(item, max_chars)
    return entry if cut is item else entry.with_item(cut)


def _cut_fields(part: Item, max_chars: int) -> Item:
    """A copy of `part` with long texts cut, or `part` itself if it has no long texts."""
    changes: Item = {}
    for name in _TEXT_FIELDS:
        value = part.get(name)
        if isinstance(value, str) and len(value) > max_chars:
            changes[name] = _cut_text(value, max_chars)
        elif isinstance(value, list):
            cut = [_cut_fields(one, max_chars) if isinstance(one, dict) else one for one in value]
            if any(after is not before for after, before in zip(cut, value, strict=True)):
                changes[name] = cut
    return {**part, **changes} if changes else part


def _cut_text(text: str, max_chars: int) -> str:
    mark = f" …[{len(text) - max_chars} or more characters left out]… "
    room = max_chars - len(mark)
    tail = room // 3
    return f"{text[: room - tail]}{mark}{text[len(text) - tail :]}"


def check_count(count: int) -> None:
    """Raise `UserError` for a negative count."""
    if count < 0:
        raise UserError(f"how many to keep must be 0 or more, not {count}")
