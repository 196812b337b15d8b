"""The handoffs of one session as JSON, with what their targets were shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.events import Event
from ekiden.core.items import Item
from ekiden.core.jsonio import dumps
from ekiden.handoff.history_query import HandoffQuery
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.handoff.shown import (
    NOTHING_SHOWN,
    ShownConversation,
    is_private,
    shown_conversation,
)
from ekiden.handoff.views import read_result, view_before, words_of
from ekiden.runtime.asked import open_requests
from ekiden.sessions import standing
from ekiden.storage.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A handoff with what was read for it."""

    record: HandoffRecord
    transfer: int | None
    """The event that handed over; `None` if none did."""
    base: Sequence[Item] = ()
    after: int = 0
    result: Sequence[Item] | None = None


async def session_handoffs(
    store: Store, session_id: str, *, start: int = 0, limit: int = 50, views: bool = True
) -> tuple[list[dict[str, Any]], int | None]:
    """Some of the session's handoffs, the oldest first, and where the next ones begin.

    After the last stand those that wait for whoever runs the session, beyond the limit. Without
    `views` it is not told what the targets were shown.
    """
    events = await store.events(session_id)
    records = records_of(events)
    end = start + limit
    told = [await _read(store, events, record, views=views) for record in records[start:end]]
    if end >= len(records):
        waiting = await open_requests(store, HandoffQuery(session_id=session_id))
        told += [_Told(record=request, transfer=None) for request in waiting]
    # A long conversation takes a while to compare: others want their turn meanwhile.
    shown = await asyncio.to_thread(_records, told, events, views=views)
    return shown, end if end < len(records) else None


async def _read(
    store: Store, events: Sequence[Event], record: HandoffRecord, *, views: bool
) -> _Told:
    transfer = _transfer(record)
    if transfer is None or not views:
        return _Told(record=record, transfer=transfer)
    key, after = view_before(events[:transfer], transfer)
    session = record.session_id
    return _Told(
        record=record,
        transfer=transfer,
        base=() if key is None else await read_result(store, session, key),
        after=after,
        result=None if record.filter is None else await read_result(store, session, record.filter),
    )


def _transfer(record: HandoffRecord) -> int | None:
    if not record.is_made:
        return None
    return next(move.seq for move in record.moves if move.status in ("transferring", "completed"))


def _records(
    told: Sequence[_Told], events: Sequence[Event], *, views: bool
) -> list[dict[str, Any]]:
    stands = {event.seq for event in standing(events)}
    by_seq = {event.seq: event for event in events}
    records = []
    for each in told:
        first = by_seq.get(each.record.moves[0].seq)
        data = _record(each, events, is_private=first is not None and is_private(first))
        data["view"] = _view(each, events).to_json() if views else None
        data["rewound"] = first is not None and first.seq not in stands
        if data["rewound"] and each.transfer is not None:
            data["status"] = "rolled_back"
        records.append(data)
    return records


def _record(told: _Told, events: Sequence[Event], *, is_private: bool) -> dict[str, Any]:
    record = told.record
    took_s = None if record.settled_at is None else record.settled_at - record.started_at
    return {
        **record.to_json(),
        "duration_ms": None if took_s is None else round(took_s * 1e3, 3),
        "summary": None if is_private else _summary(words_of(events, record)),
    }


def _summary(words: Mapping[str, Any]) -> str | None:
    summary = words.get("summary")
    return summary if isinstance(summary, str | None) else dumps(summary)


def _view(told: _Told, events: Sequence[Event]) -> ShownConversation:
    if told.transfer is None:
        return NOTHING_SHOWN
    return shown_conversation(
        events[: told.transfer], base=told.base, after=told.after, result=told.result
    )
