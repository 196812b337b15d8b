"""What a replica was sent and what is pending, as documents in the store; its status.

One document is the replica's place in the feed and the lease of the process that feeds it. Each
write names the version that the writer knows, so that of several processes one feeds the replica,
and one that was thought dead finds out before it writes. Each session with news has a document,
written together with the place: from then on the session is replicated from its own events, and one
that cannot be sent blocks no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ekiden.core.documents import Value
from ekiden.core.errors import StaleDocument
from ekiden.storage.base import DocumentWrite, SessionRow, Store

MIRRORS = "mirrors"
_PAGE = 100


class ReplicaLeaseLost(Exception):
    """Another process feeds the mirror now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSession:
    """A session that has news."""

    session_id: str
    version: int
    next_us: int = 0
    """Not before this microsecond of the store's clock."""
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEvents:
    """What was sent of a session."""

    session_id: str
    created_at_us: int
    seq: int = 0
    """The number of the last event that was sent, set aside, or had nothing to send."""
    last_us: int = 0
    """The time of the last that was sent."""
    strikes: int = 0
    """How often the next event failed while others went well."""
    kept: Any = None
    """The mirror's own."""
    version: int = 0


class ReplicaProgress:
    """The documents of one mirror, for one process that feeds it."""

    def __init__(self, store: Store, name: str, *, owner: str, lease_s: float) -> None:
        self._store = store
        self._name = name
        self._owner = owner
        self._lease_us = int(lease_s * 1e6)
        self._key = replica_key(name)
        self._version = 0
        self._renewed_us = 0
        self._lock = asyncio.Lock()
        self.cursor: str | None = None
        """The mirror's place in the feed."""
        self.sent = 0
        """The number of events that the replica has received."""
        self.set_aside = 0
        self.problem: str | None = None

    async def claim(self) -> bool:
        """Become the sender to the mirror; `False` while another process is."""
        document = await self._store.get_document(MIRRORS, self._key)
        now_us = await self._store.now_us()
        self._version = 0
        if document is not None:
            body = document.body
            if body["owner"] not in (None, self._owner) and body["until_us"] > now_us:
                return False
            self._version = document.version
            self.cursor, self.problem = body["cursor"], body["problem"]
            self.sent, self.set_aside = body["sent"], body["set_aside"]
        try:
            await self._write(now_us)
        except ReplicaLeaseLost:
            return False
        return True

    async def keep(self) -> None:
        """Stay the one, if it is time to say so; `ReplicaLeaseLost`."""
        now_us = await self._store.now_us()
        async with self._lock:
            if now_us - self._renewed_us > self._lease_us // 3:
                await self._write(now_us)

    async def count(self) -> None:
        """Store how many were sent; `ReplicaLeaseLost`."""
        async with self._lock:
            await self._write(await self._store.now_us())

    async def note(self, problem: str | None) -> None:
        """Remember why nothing is sent; stored at once when that begins or ends."""
        changed = (problem is None) != (self.problem is None)
        async with self._lock:
            self.problem = problem
            if changed:
                await self._write(await self._store.now_us())

    async def release(self) -> None:
        """Let others feed it; harmless if it was lost already."""
        async with self._lock:
            try:
                await self._write(None)
            except ReplicaLeaseLost:
                return

    async def move(self, cursor: str | None, sessions: Collection[str]) -> None:
        """Go on to `cursor`, and note that these sessions have news, as one transaction.

        One that failed already waits as long as before.
        """
        notes = []
        for each in sessions:
            known = await self._store.get_document(self._due, each)
            body = {"next_us": 0, "tries": 0} if known is None else known.body
            notes.append(DocumentWrite(collection=self._due, key=each, body=body))
        async with self._lock:
            self.cursor = cursor
            await self._write(await self._store.now_us(), notes)

    async def due(self, after: str = "") -> Sequence[DueSession]:
        """Sessions that have news, by id, those above `after`; some of them."""
        documents = await self._store.list_documents(self._due, after=after, limit=_PAGE)
        return [
            DueSession(
                session_id=each.key,
                version=each.version,
                next_us=each.body["next_us"],
                tries=each.body["tries"],
            )
            for each in documents
        ]

    async def postpone(self, due: DueSession, *, next_us: int) -> None:
        """Try it later; nothing happens if it has more news meanwhile."""
        body = {"next_us": next_us, "tries": due.tries + 1}
        write = DocumentWrite(
            collection=self._due, key=due.session_id, body=body, expected_version=due.version
        )
        await self._try_write(write)

    async def settle(self, due: DueSession) -> None:
        """Everything was sent; it stays due if it has more news meanwhile."""
        write = DocumentWrite(
            collection=self._due, key=due.session_id, body=None, expected_version=due.version
        )
        await self._try_write(write)

    async def forget(self, due: DueSession) -> None:
        """The session is gone."""
        gone = DocumentWrite(collection=self._sessions, key=due.session_id, body=None)
        await self._store.write_documents([gone])
        await self.settle(due)

    async def progress(self, row: SessionRow) -> SentEvents:
        """How far the mirror is with a session; one that was made anew begins anew."""
        document = await self._store.get_document(self._sessions, row.id)
        fresh = SentEvents(session_id=row.id, created_at_us=row.created_at_us)
        if document is None:
            return fresh
        body = document.body
        if body["at"] != row.created_at_us:
            return replace(fresh, version=document.version)
        return SentEvents(
            session_id=row.id,
            created_at_us=row.created_at_us,
            seq=body["seq"],
            last_us=body["last_us"],
            strikes=body["strikes"],
            kept=body["kept"],
            version=document.version,
        )

    async def save(self, progress: SentEvents, *, aside: DocumentWrite | None = None) -> SentEvents:
        """Store the position; `ReplicaLeaseLost` if another process did."""
        body = {
            "at": progress.created_at_us,
            "seq": progress.seq,
            "last_us": progress.last_us,
            "strikes": progress.strikes,
            "kept": progress.kept,
        }
        write = DocumentWrite(
            collection=self._sessions,
            key=progress.session_id,
            body=body,
            expected_version=progress.version,
        )
        try:
            await self._store.write_documents([write] if aside is None else [write, aside])
        except StaleDocument as exc:
            raise ReplicaLeaseLost from exc
        return replace(progress, version=progress.version + 1)

    def aside(self, event_id: str, problem: str, at_us: int) -> DocumentWrite:
        """The note of an event that is not sent."""
        body = {"problem": problem[:500], "at_us": at_us}
        return DocumentWrite(collection=self.asides, key=event_id, body=body)

    @property
    def asides(self) -> str:
        """The collection of events that were set aside."""
        return f"mirror.{self._key}.aside"

    @property
    def _due(self) -> str:
        return f"mirror.{self._key}.due"

    @property
    def _sessions(self) -> str:
        return f"mirror.{self._key}.sessions"

    async def _try_write(self, write: DocumentWrite) -> None:
        try:
            await self._store.write_documents([write])
        except StaleDocument:
            return

    async def _write(self, now_us: int | None, more: Sequence[DocumentWrite] = ()) -> None:
        """The mirror's own document; without a time it is given up."""
        body = {
            "name": self._name,
            "owner": None if now_us is None else self._owner,
            "until_us": 0 if now_us is None else now_us + self._lease_us,
            "cursor": self.cursor,
            "sent": self.sent,
            "set_aside": self.set_aside,
            "problem": self.problem,
        }
        write = DocumentWrite(
            collection=MIRRORS, key=self._key, body=body, expected_version=self._version
        )
        try:
            await self._store.write_documents([write, *more])
        except StaleDocument as exc:
            raise ReplicaLeaseLost from exc
        self._version += 1
        self._renewed_us = now_us or 0


def replica_key(name: str) -> str:
    """What a mirror's documents are filed under."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside(Value):
    """An event that is not sent to a replica."""

    event_id: str
    problem: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus(Value):
    """The progress of a replica: a copy of the sessions in another system."""

    name: str
    fed: bool
    """Whether a process is sending events to the replica now."""
    sent: int
    """The number of events that the replica has received."""
    waiting: int
    """The number of sessions with events that are not sent yet."""
    up_to_date: bool
    """Whether the replica has all stored events."""
    problem: str | None
    """Why the replica accepted no event in the last attempt."""
    set_aside: int
    aside: Sequence[SetAside]
    """Some of the events that were set aside."""


async def replica_status(store: Store, name: str) -> ReplicaStatus:
    """How the mirror of that name stands; one that was never fed has everything before it."""
    document = await store.get_document(MIRRORS, replica_key(name))
    body = {} if document is None else document.body
    book = ReplicaProgress(store, name, owner="", lease_s=0)
    waiting, after = 0, ""
    while page := await book.due(after):
        waiting += len(page)
        after = page[-1].session_id
    unread = await store.feed(after=body.get("cursor"), limit=1)
    noted = await store.list_documents(book.asides, limit=_SHOWN)
    return ReplicaStatus(
        name=name,
        fed=body.get("owner") is not None and body["until_us"] > await store.now_us(),
        sent=body.get("sent", 0),
        waiting=waiting,
        up_to_date=not waiting and not unread.events,
        problem=body.get("problem"),
        set_aside=body.get("set_aside", 0),
        aside=[
            SetAside(event_id=each.key, problem=each.body["problem"], at_us=each.body["at_us"])
            for each in noted
        ],
    )
