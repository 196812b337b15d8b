"""The handoffs of one session as JSON, with what their targets saw."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ekiden.core.conversation.model import Item
from ekiden.core.events import Event
from ekiden.core.values import dumps
from ekiden.handoff.records.query import HandoffQuery, open_requests
from ekiden.handoff.records.records import HandoffRecord, records_of
from ekiden.handoff.records.views import (
    NOTHING_SHOWN,
    ShownConversation,
    read_result,
    shown_conversation,
    view_before,
    words_of,
)
from ekiden.sessions import current_events, is_rewind
from ekiden.storage.base import Store

MOST_WITH_VIEWS: Final = 50
"""Handoffs on a page that includes what the targets saw."""

_Results: TypeAlias = Mapping[str, Sequence[Item]]
"""The results of filters, by the keys of their steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A handoff with its session's events."""

    record: HandoffRecord
    words: Mapping[str, Any]
    transfer: int | None = None
    """The event that made the handoff; `None` if it was not made."""
    base: str | None = None
    """The step with the source's initial view."""
    after: int = 0

    @property
    def keys(self) -> set[str]:
        """The steps with the view before, and with what the target saw."""
        is_made = self.transfer is not None
        return {key for key in (self.base, self.record.filter) if is_made and key is not None}


async def session_handoffs(
    store: Store, session_id: str, *, start: int = 0, limit: int = 50, views: bool = True
) -> tuple[list[dict[str, Any]], int | None]:
    """A page of the session's handoffs, oldest first, and the next cursor.

    After the last one, beyond the limit, come requests that wait for the process that runs the
    session. Without `views` it is not told what the targets saw; with it, a page has at most
    `MOST_WITH_VIEWS`. Runs that hide their content show none.
    """
    if views:
        limit = min(limit, MOST_WITH_VIEWS)
    end = start + limit
    events = await store.events(session_id)
    # Long conversations take a while to look through: others want their turn meanwhile.
    told, is_last = await asyncio.to_thread(_told, events, start, end)
    results: dict[str, Sequence[Item]] = {}
    if views:
        for key in sorted(set[str]().union(*(each.keys for each in told))):
            results[key] = await read_result(store, session_id, key)
    if is_last:
        waiting = await open_requests(store, HandoffQuery(session_id=session_id))
        told += [_Told(record=request, words={}) for request in waiting]
    shown = await asyncio.to_thread(_records, told, events, results if views else None)
    return shown, None if is_last else end


def _told(events: Sequence[Event], start: int, end: int) -> tuple[list[_Told], bool]:
    """The handoffs from `start` to `end`, and whether these are the last ones."""
    records = records_of(events)
    chosen = records[start:end]
    turns = [event for event in events if event.type == "handoff" or is_rewind(event)]
    telling = _telling(events, chosen)
    told = []
    for record in chosen:
        transfer = _transfer(record)
        base, after = (None, 0) if transfer is None else view_before(turns, transfer)
        words = words_of(telling[record.id], record)
        told.append(_Told(record=record, words=words, transfer=transfer, base=base, after=after))
    return told, end >= len(records)


def _telling(events: Sequence[Event], records: Sequence[HandoffRecord]) -> dict[str, list[Event]]:
    """For each handoff the events that may contain its message: its own, and its model's call."""
    found: dict[str, list[Event]] = {record.id: [] for record in records}
    callers: dict[str, list[str]] = {}
    for record in records:
        if record.call_id is not None:
            callers.setdefault(record.call_id, []).append(record.id)
    for event in events:
        ids: set[str] = set()
        if event.type == "handoff":
            ids.add(str((event.details or {}).get("id")))
        for item in event.items:
            if item.get("type") == "function_call":
                ids.update(callers.get(str(item.get("call_id")), ()))
        for each in ids & found.keys():
            found[each].append(event)
    return found


def _transfer(record: HandoffRecord) -> int | None:
    if not record.is_made:
        return None
    return next(move.seq for move in record.moves if move.status in ("transferring", "completed"))


def _records(
    told: Sequence[_Told], events: Sequence[Event], results: _Results | None
) -> list[dict[str, Any]]:
    """As JSON; without `results`, without views."""
    stands = {event.seq for event in current_events(events)}
    records = []
    for each in told:
        seq = each.transfer or each.record.moves[0].seq
        data = _record(each)
        data["view"] = None if results is None else _view(each, events, results).to_json()
        data["rewound"] = 0 < seq <= len(events) and seq not in stands
        if data["rewound"] and each.transfer is not None:
            data["status"] = "rolled_back"
        records.append(data)
    return records


def _record(told: _Told) -> dict[str, Any]:
    record = told.record
    took_s = None if record.settled_at is None else record.settled_at - record.started_at
    return {
        **record.to_json(),
        "duration_ms": None if took_s is None else round(took_s * 1e3, 3),
        "summary": None if record.is_private else _summary(told.words),
    }


def _summary(words: Mapping[str, Any]) -> str | None:
    summary = words.get("summary")
    return summary if isinstance(summary, str | None) else dumps(summary)


def _view(told: _Told, events: Sequence[Event], results: _Results) -> ShownConversation:
    if told.transfer is None:
        return NOTHING_SHOWN
    key = told.record.filter
    return shown_conversation(
        events[: told.transfer],
        base=() if told.base is None else results[told.base],
        after=told.after,
        result=None if key is None else results[key],
    )
