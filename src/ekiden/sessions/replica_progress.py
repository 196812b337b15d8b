"""The progress of a replica, as documents in the store, and its status.

One document is the replica's position in the feed. Each session with new events has a document,
which is written together with the position. After that, the session is replicated from its own
events, so a session that cannot be sent does not block other sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ekiden.core.documents import Value
from ekiden.core.errors import StaleDocument
from ekiden.storage.base import DocumentWrite, SessionRow, Store
from ekiden.storage.feed_position import FeedPosition, FeedPositionLost

MIRRORS = "mirrors"
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSession:
    """A session with unsent events."""

    session_id: str
    version: int
    next_us: int = 0
    """The earliest time of the next attempt, on the store's clock."""
    tries: int = 0
    """The number of failed attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEvents:
    """The position of a replica in a session."""

    session_id: str
    created_at_us: int
    seq: int = 0
    """The number of the last event that was sent or skipped. Events without replicated content are
    skipped."""
    last_us: int = 0
    """The time of the last event that was sent."""
    strikes: int = 0
    """How many times the next event failed while events of other sessions succeeded."""
    kept: Any = None
    """The result of the replica's last `send`."""
    version: int = 0


class ReplicaProgress(FeedPosition):
    """The documents of one replica, for one process that sends to it."""

    def __init__(self, store: Store, name: str, *, owner: str, lease_s: float) -> None:
        super().__init__(
            store,
            MIRRORS,
            replica_key(name),
            name=name,
            owner=owner,
            lease_s=lease_s,
            skipped="set_aside",
        )

    async def move(self, cursor: str | None, sessions: Collection[str]) -> None:
        """Store the position, and mark these sessions as having unsent events, in one transaction.

        Sessions that failed before keep their retry time.
        """
        notes = []
        for each in sessions:
            # Written again even if it exists: with the new version, `settle` does not remove it.
            known = await self._store.get_document(self._due, each)
            body = {"next_us": 0, "tries": 0} if known is None else known.body
            notes.append(DocumentWrite(collection=self._due, key=each, body=body))
        before, self.cursor = self.cursor, cursor
        try:
            await self.save(*notes)
        except BaseException:
            self.cursor = before  # `release` must not store the new position without the sessions.
            raise

    async def due(self, after: str = "") -> Sequence[DueSession]:
        """A page of sessions with unsent events, with ids above `after`, ordered by id."""
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
        """Set the time of the next attempt, unless the session has got more events meanwhile."""
        body = {"next_us": next_us, "tries": due.tries + 1}
        write = DocumentWrite(
            collection=self._due, key=due.session_id, body=body, expected_version=due.version
        )
        await self._try_write(write)

    async def settle(self, due: DueSession) -> None:
        """Mark the session as sent, unless it has got more events meanwhile."""
        write = DocumentWrite(
            collection=self._due, key=due.session_id, body=None, expected_version=due.version
        )
        await self._try_write(write)

    async def forget(self, due: DueSession) -> None:
        """Remove the documents of a deleted session."""
        gone = DocumentWrite(collection=self._sessions, key=due.session_id, body=None)
        await self._store.write_documents([gone])
        await self.settle(due)

    async def progress(self, row: SessionRow) -> SentEvents:
        """The replica's position in a session. A new session with the id of a deleted session
        starts at 0."""
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

    async def save_progress(
        self, progress: SentEvents, *, aside: DocumentWrite | None = None
    ) -> SentEvents:
        """Store the position in a session. Raises `FeedPositionLost`."""
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
            raise FeedPositionLost from exc
        return replace(progress, version=progress.version + 1)

    def aside(self, event_id: str, problem: str, at_us: int) -> DocumentWrite:
        """The write that records a skipped event."""
        body = {"problem": problem[:500], "at_us": at_us}
        return DocumentWrite(collection=self.asides, key=event_id, body=body)

    @property
    def asides(self) -> str:
        """The collection of skipped events."""
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


def replica_key(name: str) -> str:
    """The key of a replica's documents."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside(Value):
    """A skipped event: the replica refused the event, or sending it failed repeatedly."""

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
    """The reason why the last attempt to send events failed; `null` if it succeeded."""
    set_aside: int
    aside: Sequence[SetAside]
    """Some of the events that were skipped."""


async def replica_status(store: Store, name: str) -> ReplicaStatus:
    """The status of the replica with this name. An unknown name gives the status of a replica that
    has received nothing."""
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
