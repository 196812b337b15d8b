"""The handoffs of a session, with the part of the conversation that each target saw."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ekiden.core.conversation.model import Item
from ekiden.core.events import Event
from ekiden.core.values import dumps
from ekiden.handoff.query import HandoffQuery, open_requests
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.handoff.views import (
    NOTHING_SHOWN,
    ShownConversation,
    passed_data_of,
    read_result,
    shown_conversation,
    view_before,
)
from ekiden.sessions import current_events, is_rewind
from ekiden.storage.base import Store

MAX_WITH_VIEWS: Final = 50
"""The maximum number of handoffs on a page that includes the conversations that the targets saw."""

_Results: TypeAlias = Mapping[str, Sequence[Item]]
"""The results of filters, by the keys of their steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionHandoff:
    """A handoff, and where the views of its source and target are stored."""

    record: HandoffRecord
    words: Mapping[str, Any]
    """The message of the handoff."""
    transfer: int | None = None
    """The number of the event that made the handoff; `None` if it was not made."""
    base: str | None = None
    """The key of the step with the source's view; `None`: the source saw everything."""
    after: int = 0
    """The source's view also has the events after this number."""

    @property
    def keys(self) -> set[str]:
        """The keys of the steps with the views of source and target."""
        is_made = self.transfer is not None
        return {key for key in (self.base, self.record.filter) if is_made and key is not None}


async def session_handoffs(
    store: Store, session_id: str, *, start: int = 0, limit: int = 50, views: bool = True
) -> tuple[list[dict[str, Any]], int | None]:
    """Return a page of the session's handoffs, oldest first, and the next cursor.

    The last page ends with handoff requests that wait for the process that runs the session. These
    requests do not count towards the limit. With `views`, the page includes the conversations that
    the targets saw, and has at most `MAX_WITH_VIEWS` handoffs. If a run hides its content, the
    content is not shown.
    """
    if views:
        limit = min(limit, MAX_WITH_VIEWS)
    end = start + limit
    events = await store.events(session_id)
    # In a thread, because a long conversation takes a while.
    handoffs, is_last = await asyncio.to_thread(_handoffs, events, start, end)
    results: dict[str, Sequence[Item]] = {}
    if views:
        for key in sorted(set[str]().union(*(each.keys for each in handoffs))):
            results[key] = await read_result(store, session_id, key)
    if is_last:
        requests = await open_requests(store, HandoffQuery(session_id=session_id))
        handoffs += [_SessionHandoff(record=request, words={}) for request in requests]
    shown = await asyncio.to_thread(_records, handoffs, events, results if views else None)
    return shown, None if is_last else end


def _handoffs(events: Sequence[Event], start: int, end: int) -> tuple[list[_SessionHandoff], bool]:
    """The handoffs from `start` to `end`, and whether these are the last ones."""
    records = records_of(events)
    chosen = records[start:end]
    turns = [event for event in events if event.type == "handoff" or is_rewind(event)]
    messages = _message_events(events, chosen)
    found = []
    for record in chosen:
        transfer = _transfer(record)
        base, after = (None, 0) if transfer is None else view_before(turns, transfer)
        words = passed_data_of(messages[record.id], record)
        found.append(
            _SessionHandoff(record=record, words=words, transfer=transfer, base=base, after=after)
        )
    return found, end >= len(records)


def _message_events(
    events: Sequence[Event], records: Sequence[HandoffRecord]
) -> dict[str, list[Event]]:
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
    handoffs: Sequence[_SessionHandoff], events: Sequence[Event], results: _Results | None
) -> list[dict[str, Any]]:
    """The handoffs as JSON; with views if there are `results`."""
    current = {event.seq for event in current_events(events)}
    records = []
    for each in handoffs:
        seq = each.transfer or each.record.moves[0].seq
        data = _record(each)
        data["view"] = None if results is None else _view(each, events, results).to_json()
        data["rewound"] = 0 < seq <= len(events) and seq not in current
        if data["rewound"] and each.transfer is not None:
            data["status"] = "rolled_back"
        records.append(data)
    return records


def _record(handoff: _SessionHandoff) -> dict[str, Any]:
    record = handoff.record
    took_s = None if record.settled_at is None else record.settled_at - record.started_at
    return {
        **record.to_json(),
        "duration_ms": None if took_s is None else round(took_s * 1e3, 3),
        "summary": None if record.is_private else _summary_text(handoff.words),
    }


def _summary_text(words: Mapping[str, Any]) -> str | None:
    summary = words.get("summary")
    return summary if isinstance(summary, str | None) else dumps(summary)


def _view(
    handoff: _SessionHandoff, events: Sequence[Event], results: _Results
) -> ShownConversation:
    if handoff.transfer is None:
        return NOTHING_SHOWN
    key = handoff.record.filter
    return shown_conversation(
        events[: handoff.transfer],
        base=() if handoff.base is None else results[handoff.base],
        after=handoff.after,
        result=None if key is None else results[key],
    )
