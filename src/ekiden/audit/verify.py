"""Verifies that stored events and decisions were not changed after they were written or
exported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeAlias

from ekiden.audit.query import EXPORT_FORMAT, Manifest
from ekiden.audit.record import (
    NO_SESSION,
    BrokenLink,
    Fault,
    Verification,
    details_of,
    event_name,
    hash_of,
    previous_of,
    records_of,
)
from ekiden.audit.walk import UNREADABLE, Coverage, Walk, why_unreadable
from ekiden.core.errors import SessionNotFound
from ekiden.core.events import AUDITED, Event
from ekiden.core.values import dumps, loads
from ekiden.storage.base import SessionRow, Store, each_document
from ekiden.storage.chain import ITEM_DIGEST, ChainHead, json_digest

_OPEN, _CLOSED, _ORDER = "inbox.open", "inbox.done", "inbox.order"
"""The collections of the inbox."""
_CLOSED_ORDER = "2/"
"""The prefix of closed items in the collection of the order."""
_ENDS = frozenset({"answered", "expired", "cancelled"})
_ITEMS_PAGE = 500


async def check_decisions(store: Store, found: Verification) -> None:
    """Compare closed inbox items with the events that closed them. Count the matches, and report
    the first difference to `found`.

    A missing closed item is not a difference, because retention deletes closed items. Items that an
    earlier version closed have no digest and are not compared.
    """
    try:
        await _check(store, found)
    except UNREADABLE as exc:
        found.report(
            _broken(
                None,
                "unreadable",
                f"an inbox item, or its event, is damaged ({why_unreadable(exc)})",
            )
        )


async def _check(store: Store, found: Verification) -> None:
    endings = _Endings(store)
    for collection in (_CLOSED, _ORDER, _OPEN):
        async for document in each_document(store, collection):
            item_id = document.key.rpartition("/")[2]
            is_closed = collection == _CLOSED or document.key.startswith(_CLOSED_ORDER)
            ending = await endings.of(item_id, must_be=is_closed)
            if ending is None and is_closed:
                message = (
                    f"no event closed the inbox item {item_id}: the event was taken away, or the "
                    "item was put in"
                )
                found.report(_broken(None, "added", message))
                return
            expected = None if ending is None else details_of(ending).get(ITEM_DIGEST)
            if not isinstance(expected, str):
                continue
            if json_digest(document.body) != expected:
                message = f"the inbox item {item_id} is not as it was when it was closed"
                found.report(_broken(ending, "changed", message))
                return
            found.decisions += collection == _CLOSED


class _Endings:
    """The events that closed inbox items, by item id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._events: dict[str, Event] = {}
        self._last: int | None = None

    async def of(self, item_id: str, *, must_be: bool) -> Event | None:
        """The event that closed the item. With `must_be`, new events are read if it is missing."""
        # An item may be closed during the verification; its event is then newer than those read.
        if self._last is None or (must_be and item_id not in self._events):
            await self._read_on()
        return self._events.get(item_id)

    async def _read_on(self) -> None:
        self._last = self._last or 0
        while page := await self._store.events("", after=self._last, limit=_ITEMS_PAGE):
            for event in page:
                self._add(event)
            self._last = page[-1].seq

    def _add(self, event: Event) -> None:
        details = details_of(event)
        change = details.get("change")
        if event.type != "inbox" or not isinstance(change, str):
            return
        if change in _ENDS:
            self._events[str(details.get("item"))] = event
        elif change == "posted":
            # The id of a deleted item may be used again.
            self._events.pop(str(details.get("item")), None)


def _broken(event: Event | None, fault: Fault, message: str) -> BrokenLink:
    record_id = "" if event is None else event_name(event.session_id, event.seq)
    return BrokenLink(
        record_id=record_id,
        session_id="",
        fault=fault,
        message=f"{record_id}: {message}" if record_id else message,
        at_us=0 if event is None else event.at_us,
    )


_PAGE = 100

Progress: TypeAlias = Callable[[Verification], object]
"""A function that is called from time to time with the results so far."""


async def verify_audit(
    store: Store,
    *,
    session_id: str | None = None,
    against: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Check that audit records were not changed. Each record has a hash of its contents and of the
    previous record's hash. This function computes the hashes again, and reports the first mismatch
    in each session.

    The check detects changed, moved, added and removed records, including records removed from the
    end of a session. It does not detect that a whole session was deleted, or that all events and
    hashes of a session were replaced. To detect such changes, pass the lines of an earlier export
    as `against`. Each exported record must then still exist unchanged. Events without hashes, from
    an earlier version or from runs with ``events=False``, are counted but not verified. The fields
    `checked` and `not_checked` of the result describe what was verified.

    Raises `SessionNotFound` for an unknown `session_id`. Sessions may run during the verification.
    For example::

        verification = await verify_audit(store)
        if not verification.ok:
            print(verification.first.message)
    """
    checked, not_checked = _scope(session_id, is_compared=against is not None)
    found = Verification(checked=checked, not_checked=not_checked)
    heads: Mapping[str, ChainHead] = {}
    if against is not None:
        comparison = ExportComparison(store, found, session_id=session_id, progress=progress)
        heads = await comparison.run(against)
    if session_id is None:
        await _cover(found, Coverage(store, ""))
        await check_decisions(store, found)
    async for row in _rows(store, session_id, found):
        walk = Walk(store, row, heads.get(row.id))
        await walk.run()
        _add(found, walk)
        await _cover(found, Coverage(store, row.id, last=row.seq))
        if progress is not None:
            progress(found)
        await asyncio.sleep(0)  # A store in memory never yields to other tasks.
    return found


def _scope(session_id: str | None, *, is_compared: bool) -> tuple[list[str], list[str]]:
    """The descriptions of the data that is checked, and that is not."""
    if session_id is None:
        checked = [
            "the hash chain of each session",
            "the digest of each commit",
            "the chain of the events that belong to no session",
            "closed inbox items",
        ]
        not_checked = []
    else:
        checked = [f"the hash chain and the digests of session {session_id}"]
        not_checked = ["other sessions, inbox items, and events that belong to no session"]
    if is_compared:
        checked.append("each record of the export")
    else:
        not_checked.append(
            "whether whole sessions were deleted or rewritten (--against checks this)"
        )
    not_checked.append(
        "variables and other facts of sessions, steps, documents, messages and memory, "
        "which no hash covers"
    )
    return checked, not_checked


async def _cover(found: Verification, coverage: Coverage) -> None:
    await coverage.run()
    found.covered += coverage.covered
    found.uncovered += coverage.uncovered
    if coverage.broken is not None:
        found.report(coverage.broken)


def _add(found: Verification, walk: Walk) -> None:
    found.sessions += 1
    found.events += walk.count
    found.unhashed += walk.unhashed
    if walk.is_chained:
        found.chained += 1
    elif walk.unhashed:
        found.not_chained += 1
    if walk.broken is not None:
        found.report(walk.broken)


async def _rows(
    store: Store, session_id: str | None, found: Verification
) -> AsyncIterator[SessionRow]:
    """The sessions to verify; an unreadable row is reported, and ends the list."""
    if session_id is not None:
        yield await store.get(session_id)
        return
    cursor: str | None = None
    size = _PAGE
    last: SessionRow | None = None
    while True:
        try:
            page = await store.list(limit=size, cursor=cursor)
        except UNREADABLE as exc:
            # Read row by row, to verify the rows before the damaged one.
            if size > 1:
                size = 1
                continue
            found.report(_unreadable_row(last, exc))
            return
        for last in page.sessions:
            yield last
        cursor = page.next_cursor
        if cursor is None:
            return


def _unreadable_row(before: SessionRow | None, exc: Exception) -> BrokenLink:
    which = "the newest session" if before is None else f"the session created before {before.id}"
    return BrokenLink(
        record_id="",
        session_id="",
        fault="unreadable",
        message=f"the row of {which} cannot be read ({why_unreadable(exc)}), so that it "
        "and all older ones could not be read",
        at_us=0 if before is None else before.created_at_us,
    )


_REPORT_EVERY = 100


class ExportComparison:
    """Compares the records of an export with the store."""

    def __init__(
        self,
        store: Store,
        found: Verification,
        *,
        session_id: str | None = None,
        progress: Callable[[Verification], object] | None = None,
    ) -> None:
        """`found` receives the differences. With `session_id`, only records of this session are
        compared."""
        self._store = store
        self._found = found
        self._only = session_id
        self._progress = progress
        self._event_id = ""
        self._last: dict[str, str] = {}
        self._records: Mapping[str, Mapping[str, Any]] = {}

    async def run(self, lines: Iterable[str]) -> Mapping[str, ChainHead]:
        """Compare every exported record. Return the heads of the hash chains from the manifest, by
        session id."""
        digest = sha256()
        number = 0
        try:
            for number, line in enumerate(lines, start=1):
                text = line.rstrip("\r\n")
                data = _object(text)
                if data.get("format") == EXPORT_FORMAT:
                    manifest = Manifest.from_json(data)
                    if (manifest.records, manifest.sha256) != (number - 1, digest.hexdigest()):
                        raise ValueError("the manifest does not match the lines before it")
                    return manifest.heads
                digest.update(f"{text}\n".encode(errors="surrogateescape"))
                await self._compare(data)
        except ValueError as exc:
            self._damaged(f"line {number}: {exc}")
        else:
            self._damaged(f"it ends at line {number} without a manifest: its end was cut off")
        return {}

    async def _compare(self, exported: Mapping[str, Any]) -> None:
        session_id, record_id = exported.get("session_id"), exported.get("id")
        if not isinstance(session_id, str) or not isinstance(record_id, str):
            raise ValueError("it is not a record")
        if self._only is not None and session_id != self._only:
            return
        found = self._found
        found.compared += 1
        if self._progress is not None and found.compared % _REPORT_EVERY == 0:
            self._progress(found)
        if not session_id and record_id.startswith("/"):  # An export of an earlier version.
            record_id = f"{NO_SESSION}{record_id}"
            exported = {**exported, "id": record_id}
        prefix = f"{session_id or NO_SESSION}/"
        event_id = prefix + record_id[len(prefix) :].partition(".")[0]
        if event_id != self._event_id:
            self._event_id, self._records = event_id, await self._stored(session_id, event_id)
        stored = self._records.get(record_id)
        if stored == exported:
            return
        fault, why = await self._difference(session_id, exported, stored)
        found.report(
            BrokenLink(
                record_id=record_id,
                session_id=session_id,
                fault=fault,
                message=f"{record_id}: {why}",
                at_us=_time(exported),
            )
        )

    async def _stored(self, session_id: str, event_id: str) -> Mapping[str, Mapping[str, Any]]:
        """The present records of the event, by id."""
        number = event_id[len(f"{session_id or NO_SESSION}/") :]
        if not (number.isascii() and number.isdecimal()) or len(number) > 18:
            raise ValueError("it is not a record")
        seq = int(number)
        try:
            events = await self._store.events(session_id, after=seq - 1, limit=1)
            if not events or events[0].seq != seq or events[0].type not in AUDITED:
                return {}
            (event,) = events
            previous: str | None = None
            if session_id and hash_of(event) is not None:
                previous = (await previous_of(self._store, [event], self._last))[event_id]
            records = [replace(each, previous=previous) for each in records_of(event)]
            return {each.id: loads(dumps(each.to_json())) for each in records}
        except UNREADABLE:
            return {}

    async def _difference(
        self,
        session_id: str,
        exported: Mapping[str, Any],
        stored: Mapping[str, Any] | None,
    ) -> tuple[Fault, str]:
        if stored is not None:
            names = sorted(
                name for name in {*exported, *stored} if exported.get(name) != stored.get(name)
            )
            return "differs", f"differs from the export in: {', '.join(names)}"
        try:
            if session_id:
                await self._store.get(session_id)
        except SessionNotFound:
            return "deleted", "its session was deleted since the export"
        except UNREADABLE:
            return "unreadable", "its session cannot be read"
        return "missing", "exported, but missing in the store"

    def _damaged(self, why: str) -> None:
        self._found.report(
            BrokenLink(
                record_id="",
                session_id="",
                fault="damaged_export",
                message=f"the export was changed: {why}",
                at_us=0,
            )
        )


def _object(text: str) -> Mapping[str, Any]:
    try:
        data = loads(text)
    except (ValueError, RecursionError) as exc:
        raise ValueError("it is not JSON") from exc
    if not isinstance(data, dict):
        raise ValueError("it is not a record")
    return data


def _time(record: Mapping[str, Any]) -> int:
    seconds = record.get("timestamp")
    return int(seconds * 1e6) if isinstance(seconds, int | float) else 0
