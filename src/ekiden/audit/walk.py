"""Verification of the hash chain of a session, and of the digests of commits."""

from __future__ import annotations

import asyncio

from ekiden.audit.record import BrokenLink, Fault, event_name, hash_of
from ekiden.core.errors import SessionNotFound, StoreDamaged
from ekiden.core.events import AUDITED, Event
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.chain import (
    GENESIS,
    HEAD,
    UNCOVERED,
    ChainHead,
    EventDigest,
    events_digest,
    head_of,
    head_text,
    link,
    link_digest,
)

_PAGE = 1000

UNREADABLE = (StoreDamaged, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""The exceptions that damaged data can cause when it is read."""


def why_unreadable(exc: Exception) -> str:
    """The reason in the error text, without the advice to run a verification."""
    return str(exc.found if isinstance(exc, StoreDamaged) else exc)


class Walk:
    """Verifies the hash chain of one session.

    `broken` is the first broken link; events after it are not checked. Events that are written
    during this verification are checked by the next verification.
    """

    def __init__(self, store: Store, row: SessionRow, known: ChainHead | None = None) -> None:
        """`known` is the head of the chain at the time of an earlier export. The chain must still
        contain this hash."""
        self.head = head_of(row)
        self.count = 0
        """The number of audited events with a correct hash."""
        self.unhashed = 0
        """The number of audited events before the first one with a hash."""
        self.broken: BrokenLink | None = None
        self._store = store
        self._row = row
        self._known = known
        self._seq = 0
        self._at_us = row.created_at_us
        self._previous = GENESIS
        self._first_unhashed = 0

    @property
    def is_chained(self) -> bool:
        """Whether the session has a hash chain: its row has a head, or at least one event has a
        hash."""
        return self.head is not None or self.count > 0

    async def run(self) -> None:
        """Check all events, up to the first broken link."""
        size = _PAGE
        while True:
            try:
                page = await self._store.events(self._row.id, after=self._seq, limit=size)
            except UNREADABLE as exc:
                # A page with a damaged event cannot be read: read event by event, to name the
                # damaged one and check all before it.
                if size > 1:
                    size = 1
                    continue
                self._break(
                    "unreadable", self._seq + 1, f"it cannot be read ({why_unreadable(exc)})"
                )
                return
            for event in page:
                if event.seq > self._row.seq:
                    await self._check_new(event)
                else:
                    self._check(event)
                if self.broken is not None:
                    return
            if len(page) < size or page[-1].seq > self._row.seq:
                break
            await asyncio.sleep(0)  # A store in memory never yields to other tasks.
        if await self._exists():
            self._check_end()

    def _check(self, event: Event) -> None:
        if event.seq != self._seq + 1:
            gone = self._seq + 1
            self._break("missing", gone, _missing(gone, event.seq - 1))
            return
        self._seq, self._at_us = event.seq, event.at_us
        if event.type not in AUDITED:
            return
        stored = hash_of(event)
        if stored is None:
            self._without_hash(event)
            return
        try:
            is_right = link(self._previous, event) == stored
        except UNREADABLE:
            is_right = False
        if not is_right:
            self._break(
                "changed",
                event.seq,
                "its hash does not match the stored data and the previous record: it was "
                "changed, or an earlier record was changed, moved or removed",
            )
            return
        self._previous = stored
        self.count += 1
        known = self._known
        if known is not None and known.count == self.count and known.hash != stored:
            self._break(
                "differs", event.seq, "the chain up to here is not the one that was exported"
            )

    def _without_hash(self, event: Event) -> None:
        if self.count:
            self._break("no_hash", event.seq, "its hash is missing, and those before it have one")
            return
        # Events of earlier versions, without hashes, can only be the first ones.
        self._first_unhashed = self._first_unhashed or event.seq
        self.unhashed += 1

    def _check_end(self) -> None:
        """Compare the session's row with the end of its events."""
        row, head = self._row, self.head
        if self._seq != row.seq:
            gone = self._seq + 1
            self._break("cut_off", gone, f"{_missing(gone, row.seq)}, at the end of the session")
        elif head is None:
            if self.count:
                self._break("no_head", self._seq, "the session's row has lost the chain's head")
        elif not self.count and self._first_unhashed:
            self._break(
                "no_hash", self._first_unhashed, "its hash is missing, and the chain has a head"
            )
        elif (head.hash, head.count) != (self._previous, self.count):
            self._break(
                "wrong_head",
                self._seq,
                f"the chain ends after {self.count} records, and the session's row says after "
                f"{head.count}"
                if head.count != self.count
                else "the chain's head in the session's row is not the last record's hash",
            )
        elif self._known is not None and self._known.count > self.count:
            self._break(
                "cut_off",
                self._seq,
                f"the chain ends after {self.count} records, and had {self._known.count} when it "
                "was exported",
            )

    async def _check_new(self, event: Event) -> None:
        """Check an event above the row's last number: it is new, or was added by another
        program."""
        row = await self._fresh()
        if row is not None and event.seq > row.seq:
            self._at_us = event.at_us
            self._break("added", event.seq, f"it was added: the session ends at {row.seq}")

    async def _exists(self) -> bool:
        """Whether the session was not deleted meanwhile."""
        return self._seq == self._row.seq or await self._fresh() is not None

    async def _fresh(self) -> SessionRow | None:
        try:
            return await self._store.get(self._row.id)
        except SessionNotFound:
            return None

    def _break(self, fault: Fault, seq: int, message: str) -> None:
        record_id = f"{self._row.id}/{seq}"
        self.broken = BrokenLink(
            record_id=record_id,
            session_id=self._row.id,
            fault=fault,
            message=f"{record_id}: {message}",
            at_us=self._at_us,
        )


def _missing(first: int, last: int) -> str:
    return "it is missing" if first == last else f"the events {first} to {last} are missing"


class Coverage:
    """Verifies the digests of commits of one session. With an empty id, verifies the digests of
    events outside of sessions.

    `broken` is the first wrong digest; events after it are not checked.
    """

    def __init__(self, store: Store, session_id: str, *, last: int | None = None) -> None:
        """Events of a session with numbers above `last` are not checked."""
        self.covered = 0
        self.uncovered = 0
        self.broken: BrokenLink | None = None
        self._store = store
        self._session_id = session_id
        self._last = last
        self._seq = 0
        self._open: list[EventDigest] = []
        """The events after the last digest."""
        self._head = ""
        """For events outside sessions: the expected body of the document `HEAD`."""

    async def run(self) -> None:
        """Check all events, up to the first wrong digest."""
        await self._read_on()
        if self.broken is None and not self._session_id:
            await self._check_head()

    async def _read_on(self) -> None:
        size = _PAGE
        while True:
            try:
                page = await self._store.digests(self._session_id, after=self._seq, limit=size)
            except UNREADABLE as exc:
                if size > 1:
                    size = 1
                    continue
                return self._break(
                    "unreadable", self._seq + 1, f"it cannot be read ({why_unreadable(exc)})"
                )
            for each in page:
                if self._last is not None and each.seq > self._last:
                    return self._check_none_left()
                self._check(each)
                if self.broken is not None:
                    return None
            if len(page) < size:
                return self._check_none_left()

    def _check(self, each: EventDigest) -> None:
        self._seq = each.seq
        if each.commit == UNCOVERED:
            self._check_none_left()
            self.uncovered += 1
            return
        self._open.append(each)
        if each.commit is None:
            return
        number, _, digest = each.commit.partition(":")
        size = len(self._open)
        first = self._open[0].seq
        content = events_digest(event.own for event in self._open)
        # The head of a session's chain is in its row. Events outside sessions have no row, so their
        # digests are linked to each other.
        expected = content if self._session_id else link_digest(self._head, content)
        if (number, digest) != (str(size), expected):
            which = "it is" if size == 1 else f"the events {first} to {each.seq} are"
            self._break("changed", first, f"{which} not what was written{self._or_before()}")
            return
        self.covered += size
        self._head = head_text(digest)
        self._open = []

    def _or_before(self) -> str:
        return "" if self._session_id else ", or one before was taken away"

    def _check_none_left(self) -> None:
        """Check that the last event has a digest, as each commit does."""
        if self._open and self.broken is None:
            self._break("no_digest", self._open[0].seq, "the digest of its commit is missing")

    async def _check_head(self) -> None:
        """Compare the document `HEAD` with the last digest, reading events that come meanwhile."""
        while True:
            try:
                found = await self._store.get_document(*HEAD)
            except UNREADABLE as exc:
                message = f"the head of this chain cannot be read ({why_unreadable(exc)})"
                return self._break("unreadable", self._seq, message)
            body = "" if found is None else head_text(str(found.body))
            if body == self._head:
                return None
            # The head differs: there are newer events, or it is wrong. It is wrong only if there is
            # no newer event.
            before = self._seq
            await self._read_on()
            if self.broken is not None:
                return None
            if self._seq == before:
                break
        if not body:
            return self._break("no_head", self._seq, "the store has lost the head of this chain")
        message = "records after it were taken away, or the head of the chain was changed"
        return self._break("wrong_head", self._seq, message)

    def _break(self, fault: Fault, seq: int, message: str) -> None:
        record_id = event_name(self._session_id, seq)
        self.broken = BrokenLink(
            record_id=record_id,
            session_id=self._session_id,
            fault=fault,
            message=f"{record_id}: {message}",
            at_us=0,
        )
