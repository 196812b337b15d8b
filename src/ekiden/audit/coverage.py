"""Holding what is stored of events against the digests of their commits."""

from __future__ import annotations

from ekiden.audit.findings import BrokenLink, Fault
from ekiden.audit.walk import UNREADABLE, why_unreadable
from ekiden.storage.base import Store
from ekiden.storage.digests import HEAD, UNCOVERED, EventDigest, content_of, head_text, linked

_EVENTS_PAGE = 1000


class Coverage:
    """The events of one session, or with an empty id of none, in order.

    `broken` is the first place that does not fit; nothing behind it is looked at.
    """

    def __init__(self, store: Store, session_id: str, *, last: int | None = None) -> None:
        """Of a session, events above `last` are left to the next verification."""
        self.covered = 0
        self.uncovered = 0
        self.broken: BrokenLink | None = None
        self._store = store
        self._session_id = session_id
        self._last = last
        self._seq = 0
        self._open: list[EventDigest] = []
        """Those behind the last digest."""
        self._head = ""
        """Of no session: the body that the document of the head has after the last digest."""

    async def run(self) -> None:
        """Look at everything, or up to the first broken place."""
        await self._read_on()
        if self.broken is None and not self._session_id:
            await self._arrive()

    async def _read_on(self) -> None:
        size = _EVENTS_PAGE
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
                self._follow(each)
                if self.broken is not None:
                    return None
            if len(page) < size:
                return self._check_none_left()

    def _follow(self, each: EventDigest) -> None:
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
        content = content_of(event.own for event in self._open)
        expected = content if self._session_id else linked(self._head, content)
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
        """Each commit ends with its digest."""
        if self._open and self.broken is None:
            self._break("no_digest", self._open[0].seq, "the digest of its commit is missing")

    async def _arrive(self) -> None:
        """The document must have the digest of the last event; more may have come meanwhile."""
        while True:
            try:
                found = await self._store.get_document(*HEAD)
            except UNREADABLE as exc:
                told = f"the head of this chain cannot be read ({why_unreadable(exc)})"
                return self._break("unreadable", self._seq, told)
            body = "" if found is None else head_text(str(found.body))
            if body == self._head:
                return None
            before = self._seq
            await self._read_on()
            if self.broken is not None:
                return None
            if self._seq == before:
                break
        if not body:
            return self._break("no_head", self._seq, "the store has lost the head of this chain")
        told = "records after it were taken away, or the head of the chain was changed"
        return self._break("wrong_head", self._seq, told)

    def _break(self, fault: Fault, seq: int, message: str) -> None:
        record_id = f"{self._session_id}/{seq}"
        self.broken = BrokenLink(
            record_id=record_id,
            session_id=self._session_id,
            fault=fault,
            message=f"{record_id}: {message}",
            at_us=0,
        )
