"""Finds handoffs of all sessions by agent, task, status, time and more, in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ekiden.audit import AuditQuery
from ekiden.core.checks.fields import Checked
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.events import Event
from ekiden.core.handoffs import PolicyName, StatusName
from ekiden.handoff.records import HandoffRecord, record_of_request, records_of
from ekiden.handoff.requests import FINAL, REQUESTS, Asked, asked_in, session_of, tried_in
from ekiden.storage.base import EventFilter, SessionRow, Store

_PAGE: Final = 200
_FEW: Final = 8
"""Most handoffs are settled within this number of events."""
_MOST_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffQuery(Checked):
    """A filter for handoffs. A field of `None` matches all handoffs.

    For example::

        HandoffQuery(agent="billing", status="rolled_back", since=datetime(2025, 3, 1))
    """

    agent: str | None = None
    """Only handoffs from or to this agent."""
    source: str | None = None
    target: str | None = None
    task: str | None = None
    """Only handoffs of sessions with this task id. The task id of a session is its own id, unless
    the session was created for another task."""
    correlation_id: str | None = None
    status: StatusName | None = None
    """Only handoffs whose current status is this status."""
    session_id: str | None = None
    policy: PolicyName | None = None
    by: str | None = None
    """Only handoffs with this origin: a kind (``model``, ``trigger``, ``person`` or ``program``),
    or a name."""
    since: datetime | None = None
    """Only handoffs recorded at this time or later. A time without a time zone is local time of
    this machine."""
    until: datetime | None = None
    """Only handoffs recorded before this time."""

    def matches(self, record: HandoffRecord) -> bool:
        """Whether the record passes the filter. The caller must check task, correlation id and
        time, which are not in the record."""
        return (
            self.matches_first_event(record)
            and (self.status is None or record.status == self.status)
            and (self.session_id is None or record.session_id == self.session_id)
        )

    def matches_first_event(self, record: HandoffRecord) -> bool:
        """Whether the record passes the part of the filter that concerns facts of its first event:
        agents, policy and origin."""
        return (
            (self.agent is None or self.agent in (record.source, record.target))
            and (self.source is None or record.source == self.source)
            and (self.target is None or record.target == self.target)
            and (self.policy is None or record.policy == self.policy)
            and (self.by is None or self.by in (record.by.kind, record.by.name))
        )

    @property
    def needs_session_row(self) -> bool:
        """Whether the filter needs the session of a handoff, because it names a task or a
        correlation id."""
        return self.task is not None or self.correlation_id is not None

    def matches_session(self, row: SessionRow) -> bool:
        """Whether the session has the task id and the correlation id of the filter."""
        return (self.task is None or task_of(row) == self.task) and (
            self.correlation_id is None or correlation_of(row) == self.correlation_id
        )

    def event_filter(self) -> EventFilter:
        """A filter for the store, with the session and the time of this query."""
        return AuditQuery(
            type="handoff", session_id=self.session_id, since=self.since, until=self.until
        ).event_filter()


EVERYTHING: Final = HandoffQuery()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffPage:
    """A page of handoffs, newest first, and the cursor of the next page (`None` after the last
    page)."""

    records: Sequence[HandoffRecord]
    next_cursor: str | None


def task_of(row: SessionRow) -> str:
    """The task id of a session: its own id, unless its creator set another id."""
    return str(row.meta.get("task_id") or row.id)


def correlation_of(row: SessionRow) -> str:
    """The correlation id of a session: its own id, unless its creator set another id."""
    return str(row.meta.get("correlation_id") or row.id)


async def find_handoffs(
    store: Store,
    query: HandoffQuery = EVERYTHING,
    *,
    limit: int = 50,
    cursor: str | None = None,
) -> HandoffPage:
    """Return one page of the handoffs that match `query`, newest first. Each handoff appears once,
    with its current state.

    The first page begins with requested handoffs that are not executed yet because their session is
    running, newest first. These handoffs do not count towards `limit`. Handoffs are sorted by the
    time of their first event, so the order never changes, and pages stay consistent. Handoffs that
    a forked session inherited are listed only if `query` names that session. Raises `UserError` for
    a malformed cursor and for a limit below 1. Filters by session and time use an index. For other
    filters, the events are read one by one. For example::

        page = await find_handoffs(store, HandoffQuery(agent="billing"), limit=20)
        for record in page.records:
            print(record.id, record.source, record.target, record.status)
    """
    if limit < 1:
        raise UserError(f"a page of {limit} handoffs is not possible: `limit` must be 1 or more")
    if cursor == "":
        raise UserError("'' is not a cursor: pass the `next_cursor` of a page")
    found: list[HandoffRecord] = []
    places: list[str] = []
    # Read before the events: a request that is executed meanwhile would otherwise be in neither
    # list.
    waiting = await open_requests(store, query) if cursor is None else []
    waiting.reverse()
    async for record, place in _matching(store, query, cursor, page=min(_PAGE, 2 * limit + 2)):
        if len(found) == limit:
            return HandoffPage(records=_once(waiting, found), next_cursor=places[-1])
        found.append(record)
        places.append(place)
    return HandoffPage(records=_once(waiting, found), next_cursor=None)


def _once(waiting: list[HandoffRecord], found: list[HandoffRecord]) -> list[HandoffRecord]:
    """Both lists; a request that was executed between the two reads is listed only as recorded."""
    recorded = {record.id for record in found}
    return [*(each for each in waiting if each.id not in recorded), *found]


async def open_requests(store: Store, query: HandoffQuery = EVERYTHING) -> list[HandoffRecord]:
    """Requested handoffs that are not recorded in their sessions yet, in the order of the
    requests."""
    where = query.event_filter()
    found = []
    async for session_id, asked in _requests(store, query.session_id):
        if where.since_us is not None and asked.asked_us < where.since_us:
            continue
        if where.until_us is not None and asked.asked_us >= where.until_us:
            continue
        try:
            row = await store.get(session_id)
        except SessionNotFound:
            continue
        record = await record_of_request(store, row, asked)
        is_on_record = any(each.id == asked.id for each in tried_in(row.cursor))
        if not is_on_record and query.matches(record) and query.matches_session(row):
            found.append(record)
    return sorted(found, key=lambda record: record.started_at)


async def _requests(store: Store, session_id: str | None) -> AsyncIterator[tuple[str, Asked]]:
    after, prefix = "", "" if session_id is None else f"{session_id}/"
    while documents := await store.list_documents(REQUESTS, prefix=prefix, after=after):
        for document in documents:
            of_session, asked = session_of(document), asked_in(document)
            if asked.cancel is None and session_id in (None, of_session):
                yield of_session, asked
        after = documents[-1].key


async def _matching(
    store: Store, query: HandoffQuery, cursor: str | None, *, page: int
) -> AsyncIterator[tuple[HandoffRecord, str]]:
    """The matching handoffs, each with the cursor for the page after it."""
    where = query.event_filter()
    sessions = _Sessions(store, query)
    later = _Later()
    while True:
        found = await store.find_events(where, limit=page, cursor=cursor)
        for event, place in zip(found.events, found.cursors, strict=True):
            if not event.details or (query.session_id is None and _is_copy(event)):
                continue
            if not _is_beginning(event):
                later.remember(event)
                continue
            [begun] = records_of([event])
            events = [event, *later.take(event)]
            if not query.matches_first_event(begun) or not await sessions.match(event.session_id):
                continue
            record = await _complete_record(store, events)
            if query.matches(record):
                yield record, place
        cursor = found.next_cursor
        if cursor is None:
            return
        page = _PAGE


def _id_of(event: Event) -> str:
    return str((event.details or {}).get("id", event.event_id))


def _is_beginning(event: Event) -> bool:
    moves = (event.details or {}).get("moves")
    return moves is None or "initiated" in moves  # earlier versions recorded only the end


def _is_copy(event: Event) -> bool:
    """Whether the event was copied when its session was forked."""
    session_id, mark, number = _id_of(event).rpartition(".h")
    is_id = number.isdecimal() or number.startswith("rq_")
    return bool(mark) and is_id and session_id != event.session_id


async def _complete_record(store: Store, events: list[Event]) -> HandoffRecord:
    """The record of the handoff with these events, the first included; missing events are read."""
    first, size = events[0], _FEW
    [record] = records_of(events)
    if record.status in FINAL:
        return record
    handoff_id, after, events = record.id, first.seq, [first]
    while True:
        more = await store.events(first.session_id, after=after, limit=size)
        events += [
            event for event in more if event.type == "handoff" and _id_of(event) == handoff_id
        ]
        [record] = records_of(events)
        if record.status in FINAL or len(more) < size:
            return record
        after, size = more[-1].seq, _PAGE


class _Later:
    """Later events of handoffs whose first event is not read yet, because events are read
    backwards.

    Most are used soon. If there are too many, the oldest are dropped, and read again if needed.
    """

    def __init__(self) -> None:
        self._events: dict[tuple[str, str], list[Event]] = {}

    def remember(self, event: Event) -> None:
        """Keep the event until the first event of its handoff is read."""
        if len(self._events) >= _MOST_REMEMBERED:
            del self._events[next(iter(self._events))]
        key = (event.session_id, _id_of(event))
        self._events.setdefault(key, []).append(event)

    def take(self, first: Event) -> list[Event]:
        """The later events of the handoff of `first`, in order."""
        events = self._events.pop((first.session_id, _id_of(first)), [])
        return sorted(events, key=lambda event: event.seq)


class _Sessions:
    """Whether sessions match a query. Results are cached, up to a maximum number."""

    def __init__(self, store: Store, query: HandoffQuery) -> None:
        self._store = store
        self._query = query
        self._known: dict[str, bool] = {}

    async def match(self, session_id: str) -> bool:
        """Whether the session exists and matches the query."""
        if not self._query.needs_session_row:
            return True
        known = self._known.get(session_id)
        if known is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            known = self._known[session_id] = await self._read(session_id)
        return known

    async def _read(self, session_id: str) -> bool:
        try:
            return self._query.matches_session(await self._store.get(session_id))
        except SessionNotFound:
            return False
