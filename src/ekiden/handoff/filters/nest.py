"""Nests the past of a conversation into one message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ekiden.core.conversation.model import Item
from ekiden.core.handoff import HandoffInputData
from ekiden.handoff.filters.filters import SyncFilter
from ekiden.handoff.filters.selection import VisibleItem, visible_entries
from ekiden.handoff.filters.transcript import parse_transcript, render_transcript

HistoryMapper: TypeAlias = Callable[[list[Item]], list[Item]]
"""Turns the transcript so far into what the target is given of it."""


class _NestHistory(SyncFilter):
    """Everything before the last turn becomes one message of the assistant's.

    What was said in the last turn follows as it is; its calls and outputs, the transfer among
    them, follow as such a message too. `new_items` stays what the run produced.
    """

    def __init__(self) -> None:
        super().__init__(self._nest, "nest_handoff_history")

    def __call__(
        self, data: HandoffInputData, *, history_mapper: HistoryMapper | None = None
    ) -> HandoffInputData:
        return self._nest(data, history_mapper)

    @staticmethod
    def _nest(
        data: HandoffInputData, history_mapper: HistoryMapper | None = None
    ) -> HandoffInputData:
        entries = visible_entries(data)
        past = [entry for entry in entries if entry.section in _PAST]
        transcript = [item for entry in past for item in unnested(entry.item)]
        mapped = (history_mapper or default_handoff_history_mapper)(transcript)
        present = _last_turn([entry for entry in entries if entry.section not in _PAST])
        return data.clone(input_history=(*mapped, *present), pre_handoff_items=(), input_items=())


_PAST = ("input_history", "pre_handoff_items")

nest_handoff_history = _NestHistory()


def nest_history(history_mapper: HistoryMapper | None = None) -> SyncFilter:
    """Show earlier turns as one message, and the last turn unchanged; a filter that can be chained.

    `history_mapper` may return other items for the earlier turns. For example::

        handoff(billing, input_filter=redact("card") | nest_history())
    """
    if history_mapper is None:
        return SyncFilter(nest_handoff_history, "nest_history()")
    return SyncFilter(
        lambda data: nest_handoff_history(data, history_mapper=history_mapper),
        f"nest_history({getattr(history_mapper, '__name__', 'mapper')})",
    )


def default_handoff_history_mapper(transcript: list[Item]) -> list[Item]:
    """The transcript as one message."""
    return [{"role": "assistant", "content": render_transcript(transcript)}]


def _last_turn(entries: Sequence[VisibleItem]) -> Iterator[Item]:
    """What was said stays; runs of anything else become a nested history of their own."""
    others: list[Item] = []
    for entry in entries:
        if entry.kind != "message":
            others.append(entry.item)
            continue
        if others:
            yield from default_handoff_history_mapper(others)
            others = []
        yield entry.item
    if others:
        yield from default_handoff_history_mapper(others)


def unnested(item: Item) -> Sequence[Item]:
    """The items of a nested history, so that nesting again does not nest deeper."""
    inner = parse_transcript(item)
    return (item,) if inner is None else inner
