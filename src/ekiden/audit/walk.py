"""Walking along the chain of one session."""

from __future__ import annotations

import asyncio

from ekiden.audit.findings import BrokenLink, Fault
from ekiden.audit.record import hash_of
from ekiden.core.errors import SessionNotFound, StoreDamaged
from ekiden.core.events import AUDITED, Event
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.chain import GENESIS, ChainHead, head_of, link

_PAGE = 1000

UNREADABLE = (
    StoreDamaged,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
)
"""Exceptions of reading data that no store writes."""


def why_unreadable(exc: Exception) -> str:
    """The reason alone: who verifies needs no advice to do so."""
    return str(exc.found if isinstance(exc, StoreDamaged) else exc)


class Walk:
    """One session's events, in order, each held against what the chain says.

    `broken` is the first place that does not fit; nothing behind it is looked at. Events that are
    written meanwhile are left to the next verification.
    """

    def __init__(self, store: Store, row: SessionRow, known: ChainHead | None = None) -> None:
        """`known` is a head that the chain had at some time: it must still be a part of it."""
        self.head = head_of(row)
        self.count = 0
        """Audited events whose hash is right."""
        self.unhashed = 0
        """Audited events before the first one with a hash."""
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
        """Whether the session has a chain, or should have one."""
        return self.head is not None or self.count > 0

    async def run(self) -> None:
        """Look at everything, or up to the first broken link."""
        size = _PAGE
        while True:
            try:
                page = await self._store.events(self._row.id, after=self._seq, limit=size)
            except UNREADABLE as exc:
                # One damaged event spoils its whole page: read singly, to name it and check all
                # before it.
                if size > 1:
                    size = 1
                    continue
                self._break(
                    "unreadable", self._seq + 1, f"it cannot be read ({why_unreadable(exc)})"
                )
                return
            for event in page:
                if event.seq > self._row.seq:
                    await self._beyond(event)
                else:
                    self._follow(event)
                if self.broken is not None:
                    return
            if len(page) < size or page[-1].seq > self._row.seq:
                break
            await asyncio.sleep(0)  # A store in memory never waits, and others want their turn.
        if await self._is_still_there():
            self._arrive()

    def _follow(self, event: Event) -> None:
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
        # Events of versions without hashes may come first, never in between.
        self._first_unhashed = self._first_unhashed or event.seq
        self.unhashed += 1

    def _arrive(self) -> None:
        """At the end: the row must say the same as the events."""
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

    async def _beyond(self, event: Event) -> None:
        """An event above the row's last number: written since the row was read, or smuggled in."""
        # The row was read when the walk began, so the session may have grown since.
        row = await self._fresh()
        if row is not None and event.seq > row.seq:
            self._at_us = event.at_us
            self._break("added", event.seq, f"it was added: the session ends at {row.seq}")

    async def _is_still_there(self) -> bool:
        """Whether the session was not deleted under our eyes."""
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
