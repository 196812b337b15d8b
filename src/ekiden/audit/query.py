"""Queries of the audit log, in pages, and exports of it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from ekiden.audit.record import (
    NO_SESSION,
    AuditRecord,
    hash_of,
    is_audited,
    previous_of,
    records_of,
)
from ekiden.core.checks.fields import Checked
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.events import AUDITED, Event, EventType
from ekiden.core.text.keywords import alike
from ekiden.core.values import dumps, loads
from ekiden.storage.base import EventFilter, Journal, Store
from ekiden.storage.chain import ChainHead, head_of

_PAGE = 200
_CURSOR = re.compile(r"([^+]*)\+([0-9]{1,3})\.([0-9]{1,18})", re.ASCII)
_RECORD = re.compile(
    r"(?P<session>.*)/(?P<seq>[1-9][0-9]{0,17})(?P<number>\.[0-9]+)?", re.ASCII | re.DOTALL
)
_HANDOFF = re.compile(r"(?P<session>.+)\.h(?:[0-9]+|rq_[0-9a-z]+)", re.ASCII | re.DOTALL)
"""The usual form of a handoff's id, which names the session; other ids are searched everywhere."""
_MOST_OF_A_HANDOFF = 1000
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery(Checked):
    """A filter for audit records. `None` in a field matches all records.

    For example::

        AuditQuery(agent="billing", status="rolled_back", since=datetime(2025, 3, 1))
    """

    agent: str | None = None
    """Only records that have this agent as source, target or actor."""
    task: str | None = None
    correlation_id: str | None = None
    status: str | None = None
    """Only records of handoffs that changed to this status."""
    handoff_id: str | None = None
    session_id: str | None = None
    type: EventType | None = None
    """Only records of this event type, one of `AUDITED`. The type `message` (queries between
    agents) finds records only if the filter also names a task or a correlation id."""
    since: datetime | None = None
    """Only records from this time or later. A time without a time zone is local time of this
    machine."""
    until: datetime | None = None
    """Only records before this time."""
    text: str = ""
    """Only records whose agents, reason, error, code, ids or facts contain this text, ignoring
    case."""
    newest_first: bool = True

    def matches(self, record: AuditRecord) -> bool:
        """Whether the record passes the filter. This method does not check type, session and time,
        because the store has already filtered by them."""
        return (
            (self.status is None or record.move == self.status)
            and (self.task is None or record.task_id == self.task)
            and (self.correlation_id is None or record.correlation_id == self.correlation_id)
            and (self.handoff_id is None or record.handoff_id == self.handoff_id)
            and (self.agent is None or self.agent in _agents(record))
            and (not self.text or alike(self.text.strip()) in _words(record))
        )

    def event_filter(self) -> EventFilter:
        """A filter for the store, with the type, session and time of this query."""
        known: frozenset[EventType] = AUDITED
        if self.task is not None or self.correlation_id is not None:
            known |= {"message"}
        types = known if self.type is None else known & {self.type}
        if self.status is not None:
            types &= {"handoff"}
        return EventFilter(
            types=types,
            session_id=self.session_id,
            since_us=None if self.since is None else _microseconds(self.since),
            until_us=None if self.until is None else _microseconds(self.until),
            newest_first=self.newest_first,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """A page of records."""

    records: Sequence[AuditRecord]
    next_cursor: str | None
    """The cursor of the next page; `None` after the last page."""


async def audit_records(
    store: Journal,
    query: AuditQuery = AuditQuery(),
    *,
    limit: int = 50,
    cursor: str | None = None,
    most: int | None = None,
) -> AuditPage:
    """Return one page of the audit records that match `query`, newest first by default.

    Raises `UserError` for a malformed cursor and for a limit below 1. Filters by type, session and
    time use an index. For other filters, the events are read one by one. With `most`, the call
    stops after reading about this many events. Such a page can be short or empty although later
    pages have records. For example::

        page = await audit_records(store, AuditQuery(agent="billing"), limit=20)
        for record in page.records:
            print(record.id, record.move, record.actor, record.reason)
    """
    return await read_page(store, query, limit=limit, cursor=cursor, last={}, most=most)


async def read_page(
    store: Journal,
    query: AuditQuery,
    *,
    limit: int,
    cursor: str | None,
    last: dict[str, str],
    most: int | None = None,
) -> AuditPage:
    """Like `audit_records`, for a caller that reads several pages. The caller passes the same
    dictionary `last` with each call. See `previous_of`."""
    if limit < 1:
        raise UserError(f"a page of {limit} records is not possible: `limit` must be 1 or more")
    found: list[tuple[Event, AuditRecord]] = []
    places: list[str] = []
    page = min(_PAGE, limit + 1)
    async for event, place, record in _matching(store, query, cursor, page=page, most=most):
        if record is None:
            return AuditPage(records=await _linked(store, found, last), next_cursor=place)
        if len(found) == limit:
            return AuditPage(records=await _linked(store, found, last), next_cursor=places[-1])
        found.append((event, record))
        places.append(place)
    return AuditPage(records=await _linked(store, found, last), next_cursor=None)


async def find_records(store: Journal, name: str) -> Sequence[AuditRecord]:
    """Return records, oldest first. `name` is the id of a record, of an event or of a handoff. For
    an unknown id the result is empty."""
    record = _RECORD.fullmatch(name)
    if record is not None:
        session_id, seq = record["session"], int(record["seq"])
        events = await store.events(session_id, after=seq - 1, limit=1)
        if not events and session_id == NO_SESSION:
            events = await store.events("", after=seq - 1, limit=1)
        if events and events[0].seq == seq and events[0].type in AUDITED:
            event = events[0]
            found = await _linked(store, [(event, each) for each in records_of(event)], {})
            number = record["number"]
            return [each for each in found if number is None or each.id.endswith(number)]
    by_handoff = AuditQuery(handoff_id=name, newest_first=False)
    handoff = _HANDOFF.fullmatch(name)
    if handoff is not None:
        own = replace(by_handoff, session_id=handoff["session"])
        if found := (await audit_records(store, own, limit=_MOST_OF_A_HANDOFF)).records:
            return found
    return (await audit_records(store, by_handoff, limit=_MOST_OF_A_HANDOFF)).records


async def _matching(
    store: Journal, query: AuditQuery, cursor: str | None, *, page: int, most: int | None
) -> AsyncIterator[tuple[Event, str, AuditRecord | None]]:
    """The matching records with their events and the cursors after them. If `most` events were
    read, the last entry has no record."""
    where = query.event_filter()
    before, shown, of_seq = _parse(cursor)
    count = 0
    while True:
        found = await store.find_events(where, limit=page, cursor=before or None)
        count += len(found.events)
        for event, after in zip(found.events, found.cursors, strict=True):
            records = records_of(event) if is_audited(event) else []
            ordered = records[::-1] if query.newest_first else records
            for number, record in enumerate(ordered, start=1):
                if event.seq == of_seq and number <= shown:
                    continue
                is_last = number == len(ordered)
                if query.matches(record):
                    yield event, after if is_last else f"{before}+{number}.{event.seq}", record
            before, shown, of_seq = after, 0, None
        if found.next_cursor is None:
            return
        if most is not None and count >= most:
            yield found.events[-1], before, None
            return
        page = _PAGE


def _parse(cursor: str | None) -> tuple[str, int, int | None]:
    """The store's cursor, the number of returned records of the event after it, and the number of
    that event.

    The event's number is compared, because its session may be deleted meanwhile.
    """
    if cursor is None:
        return "", 0, None
    inside = _CURSOR.fullmatch(cursor)
    if inside is not None:
        return inside[1], int(inside[2]), int(inside[3])
    if not cursor:
        raise UserError("'' is not a cursor: pass the `next_cursor` of a page")
    return cursor, 0, None


async def _linked(
    store: Journal, found: Sequence[tuple[Event, AuditRecord]], last: dict[str, str]
) -> Sequence[AuditRecord]:
    """The records with the previous hashes."""
    events = {
        event.event_id: event
        for event, _ in found
        if event.session_id and hash_of(event) is not None
    }
    previous = await previous_of(store, list(events.values()), last)
    return [replace(record, previous=previous.get(event.event_id)) for event, record in found]


def _agents(record: AuditRecord) -> tuple[str | None, ...]:
    actor = record.actor
    return record.source, record.target, actor.name if actor.kind == "agent" else None


def _words(record: AuditRecord) -> str:
    """The searchable text of a record."""
    said = (
        record.actor.name,
        record.source,
        record.target,
        record.reason,
        record.error,
        record.code,
        record.session_id,
        record.handoff_id,
        record.task_id,
        *_leaves(record.facts),
    )
    return "\n".join(alike(each) for each in said if each)


def _leaves(facts: Any) -> Iterator[str]:
    """The names and values in the facts, at any depth."""
    waiting = [facts]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            waiting += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
        elif value is not None:
            yield str(value)


def _microseconds(moment: datetime) -> int:
    try:
        aware = moment.astimezone() if moment.tzinfo is None else moment
        return (aware - _EPOCH) // timedelta(microseconds=1)
    except (OverflowError, ValueError, OSError) as exc:
        raise UserError(f"{moment.isoformat()} is too far away to be a time of events") from exc


EXPORT_FORMAT = "ekiden.audit"
EXPORT_VERSION = 1
_EXPORT_PAGE = 500
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal interprets; they are escaped, so that an export can be displayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The last line of an export, which describes the export."""

    records: int
    """The number of records."""
    heads: Mapping[str, ChainHead]
    """The head of the hash chain of each session with records in the export, by session id."""
    sha256: str
    """The SHA-256 of all lines before the manifest, including their line feeds, in hexadecimal."""

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON."""
        return {
            "format": EXPORT_FORMAT,
            "version": EXPORT_VERSION,
            "records": self.records,
            "heads": {name: [head.hash, head.count] for name, head in self.heads.items()},
            "sha256": self.sha256,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """Read a manifest from the result of `to_json`. Raises `ValueError` for an invalid
        manifest."""
        if data.get("version") != EXPORT_VERSION:
            raise ValueError(f"version {data.get('version')!r} of the format is not known")
        try:
            return cls(
                records=int(data["records"]),
                heads={
                    name: ChainHead(hash=str(value), count=int(count))
                    for name, (value, count) in data["heads"].items()
                },
                sha256=str(data["sha256"]),
            )
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError("its fields are not valid") from exc


async def export_audit(store: Store, query: AuditQuery, write: Callable[[str], object]) -> Manifest:
    """Write the records that match `query`, oldest first, with one JSON object per line. The last
    line is the manifest.

    `write` is called once for each line, including its line feed. If the manifest is missing, the
    export is incomplete. `verify_audit(store, against=lines)` later checks that all its records
    still exist. For example::

        with open("audit.jsonl", "w", encoding="utf-8") as file:
            manifest = await export_audit(store, AuditQuery(), file.write)
    """
    line = ""
    async for line in export_lines(store, query):
        write(line)
    return Manifest.from_json(loads(line))


async def export_lines(store: Store, query: AuditQuery) -> AsyncGenerator[str, None]:
    """An iterator over the lines that `export_audit` writes."""
    digest = sha256()
    count = 0
    sessions: dict[str, None] = {}
    async for record in _all(store, replace(query, newest_first=False)):
        line = _line(record.to_json())
        yield line
        digest.update(line.encode())
        sessions[record.session_id] = None
        count += 1
    manifest = Manifest(
        records=count, heads=await _heads(store, sessions), sha256=digest.hexdigest()
    )
    yield _line(manifest.to_json())


def _line(value: Mapping[str, Any]) -> str:
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", dumps(value)) + "\n"


async def _all(store: Store, query: AuditQuery) -> AsyncIterator[AuditRecord]:
    cursor: str | None = None
    last: dict[str, str] = {}
    while True:
        page = await read_page(store, query, limit=_EXPORT_PAGE, cursor=cursor, last=last)
        for record in page.records:
            yield record
        cursor = page.next_cursor
        if cursor is None:
            return


async def _heads(store: Store, sessions: Mapping[str, None]) -> Mapping[str, ChainHead]:
    heads: dict[str, ChainHead] = {}
    for session_id in sessions:
        try:
            head = head_of(await store.get(session_id))
        except SessionNotFound:
            continue
        if head is not None:
            heads[session_id] = head
    return heads
