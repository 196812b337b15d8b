"""The store that lives and dies with its process: for tests, and for runs without a session.

Events are kept and given back as the objects they are, which nobody may change (see `Event`).
Everything else that a caller could change later is copied on the way in and on the way out, and
refused if it is not JSON; what an event carries is not looked at.
A store belongs to one event loop; there is no locking because no method gives way half-done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ekiden.core.clock import SYSTEM_CLOCK
from ekiden.core.errors import (
    LeaseLost,
    SessionBusy,
    SessionExists,
    SessionNotFound,
)
from ekiden.core.events import Event
from ekiden.core.roles import Clock
from ekiden.storage.base import (
    Claim,
    Commit,
    Document,
    DocumentWrite,
    EventFilter,
    EventPage,
    NewSession,
    OwnJson,
    QueueMessage,
    QueuePut,
    SessionFilter,
    SessionPage,
    SessionPatch,
    SessionRow,
)
from ekiden.storage.changes import ChangeSignal
from ekiden.storage.memory_session import MemorySession
from ekiden.storage.values import (
    check_numbers,
    checked_copy,
    closed_store,
    copy_json,
    parse_cursor,
    step_conflict,
)

if TYPE_CHECKING:
    from ekiden.storage.memory_documents import MemoryDocuments
    from ekiden.storage.memory_queue import MemoryQueues


class MemoryStore:
    """`Store` in this process's memory.

    Nobody else can be alive when this process is not, so a session's lease ends only by release,
    or when a test lets time pass with `advance`. Queues run on the clock::

        session = Session("s1", store=MemoryStore())
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._advanced_s = 0.0
        self._sessions: dict[str, MemorySession] = {}
        self._ready: dict[str, MemorySession] = {}
        self._created = 0
        self._changes = ChangeSignal()
        self._closed = False

    @cached_property
    def _documents(self) -> MemoryDocuments:
        from ekiden.storage.memory_documents import MemoryDocuments

        return MemoryDocuments()

    @cached_property
    def _queues(self) -> MemoryQueues:
        from ekiden.storage.memory_queue import MemoryQueues

        return MemoryQueues()

    @property
    def url(self) -> str:
        return "memory:"

    @property
    def shared(self) -> bool:
        return False

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass for leases and delays; for tests."""
        self._advanced_s += seconds

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        """Refuse calls until `open`; what is stored stays until the object is gone."""
        self._closed = True
        self._changes.notify()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def info(self) -> Mapping[str, Any]:
        self._check_open()
        return {
            "engine": "memory",
            "version": "1",
            "format": 1,
            "sessions": len(self._sessions),
            "events": sum(session.seq for session in self._sessions.values()),
        }

    # Sessions

    async def create(self, new: NewSession) -> None:
        self._check_open()
        if new.id in self._sessions:
            raise SessionExists(new.id)
        self._create(new)
        self._changes.notify()

    async def get(self, session_id: str) -> SessionRow:
        self._check_open()
        return self._row(self._find(session_id))

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        self._check_open()
        below = self._created + 1 if cursor is None else parse_cursor(cursor)
        page: list[SessionRow] = []
        last = 0
        for session in reversed(self._sessions.values()):
            if session.number >= below or not session.matches(where):
                continue
            if len(page) == limit:
                return SessionPage(sessions=page, next_cursor=str(last))
            page.append(self._row(session))
            last = session.number
        return SessionPage(sessions=page, next_cursor=None)

    async def delete(self, session_id: str) -> None:
        self._check_open()
        session = self._find(session_id)
        self._check_free(session)
        del self._sessions[session_id]
        self._ready.pop(session_id, None)
        self._changes.notify()

    # Leases

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is None:
            if create is None:
                raise SessionNotFound(session_id)
            session = self._create(create)
        else:
            self._check_free(session)
        return self._take(session, owner, lease_s)

    async def claim_next(
        self, *, owner: str, lease_s: float, agents: Collection[str] | None = None
    ) -> tuple[Claim, SessionRow] | None:
        self._check_open()
        now = self._advanced_s
        for session in self._ready.values():
            if agents is not None and session.agent not in agents:
                continue
            if session.owner is None or session.until <= now:
                return self._take(session, owner, lease_s)
        return None

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        self._check_open()
        lost = []
        for claim in claims:
            session = self._owned(claim)
            if session is None:
                lost.append(claim)
            else:
                session.until = self._advanced_s + claim.lease_s
        return lost

    async def release(self, claim: Claim) -> None:
        self._check_open()
        session = self._owned(claim)
        if session is not None:
            session.owner = None
            self._changes.notify()

    async def wait_for_change(self, timeout_s: float) -> None:
        self._check_open()
        await self._changes.wait(timeout_s)

    # Journal

    async def commit(self, claim: Claim, commit: Commit) -> None:
        self._check_open()
        session = self._owned(claim)
        if session is None:
            raise LeaseLost(claim.session_id)
        events, steps = commit.events, commit.steps
        if events:
            check_numbers(session.id, session.seq, events)
        cursor, variables = commit.patch.cursor, commit.patch.variables
        if cursor is not None and type(cursor) is not OwnJson:
            cursor = checked_copy(cursor, "the cursor of session {!r}", session.id)
        if variables is not None:
            variables = checked_copy(variables, "`variables` of session {!r}", session.id)
        results = _results(session, steps) if steps else {}
        if commit.documents or commit.messages:
            documents = self._documents.stage(commit.documents, now_us=self._clock.now_us())
            messages = self._queues.stage(commit.messages)
            self._documents.apply(documents)
            self._queues.put(messages, now=self._now())
        if events:
            session.events.extend(events)
            session.seq = events[-1].seq
        session.steps.update(results)
        self._patch(session, commit.patch, cursor, variables)
        if commit.release:
            session.owner = None
        else:
            session.until = self._advanced_s + claim.lease_s
        self._changes.notify()

    async def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        with_items: bool = False,
    ) -> Sequence[Event]:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is None:
            return ()
        if with_items:
            return [event for event in session.events[after:] if event.speaks][:limit]
        return session.events[after : None if limit is None else after + limit]

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        from ekiden.storage.memory_events import find_events

        self._check_open()
        return find_events(self._sessions.values(), where, limit, cursor)

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is None:
            return {}
        return {
            key: copy_json(result)
            for key, result in session.steps.items()
            if key.startswith(prefix)
        }

    # Documents

    async def get_document(self, collection: str, key: str) -> Document | None:
        self._check_open()
        return self._documents.get(collection, key)

    async def write_documents(self, writes: Sequence[DocumentWrite]) -> None:
        self._check_open()
        self._documents.apply(self._documents.stage(writes, now_us=self._clock.now_us()))
        self._changes.notify()

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        self._check_open()
        return self._documents.page(collection, prefix=prefix, after=after, limit=limit)

    # Queues

    async def put_messages(self, messages: Sequence[QueuePut]) -> None:
        self._check_open()
        self._queues.put(self._queues.stage(messages), now=self._now())
        self._changes.notify()

    async def take_messages(
        self, queue: str, *, owner: str, lease_s: float, limit: int = 1
    ) -> Sequence[QueueMessage]:
        self._check_open()
        return self._queues[queue].take(owner=owner, lease_s=lease_s, limit=limit, now=self._now())

    async def ack_message(self, message: QueueMessage) -> bool:
        self._check_open()
        return self._queues[message.queue].ack(message)

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        self._check_open()
        queue = self._queues[message.queue]
        if not queue.release(message, delay_s=delay_s, now=self._now()):
            return False
        self._changes.notify()
        return True

    async def queue_depth(self, queue: str) -> int:
        self._check_open()
        return len(self._queues[queue])

    # Within

    def _check_open(self) -> None:
        if self._closed:
            raise closed_store(self.url)

    def _now(self) -> float:
        return self._clock.monotonic() + self._advanced_s

    def _create(self, new: NewSession) -> MemorySession:
        session = MemorySession(new, self._created + 1, self._clock.now_us())
        self._created += 1
        self._sessions[new.id] = session
        if new.status == "ready":
            self._ready[new.id] = session
        return session

    def _find(self, session_id: str) -> MemorySession:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        return session

    def _check_free(self, session: MemorySession) -> None:
        if session.owner is not None and session.until > self._advanced_s:
            raise SessionBusy(
                session.id, owner=session.owner, free_in_s=session.until - self._advanced_s
            )

    def _take(self, session: MemorySession, owner: str, lease_s: float) -> tuple[Claim, SessionRow]:
        session.epoch += 1
        session.owner = owner
        session.until = self._advanced_s + lease_s
        claim = Claim(
            session_id=session.id, owner=owner, epoch=session.epoch, lease_s=lease_s, key=session
        )
        return claim, self._row(session)

    def _owned(self, claim: Claim) -> MemorySession | None:
        session = self._sessions.get(claim.session_id)
        if (
            session is None
            or session is not claim.key
            or session.epoch != claim.epoch
            or session.owner != claim.owner
            or session.until <= self._advanced_s
        ):
            return None
        return session

    def _row(self, session: MemorySession) -> SessionRow:
        return SessionRow(
            id=session.id,
            agent=session.agent,
            status=session.status,
            outcome=session.outcome,
            user_id=session.user_id,
            meta=copy_json(session.meta),
            cursor=copy_json(session.cursor),
            variables=copy_json(session.variables),
            seq=session.seq,
            epoch=session.epoch,
            owner=session.owner if session.until > self._advanced_s else None,
            created_at_us=session.created_at_us,
            updated_at_us=session.updated_at_us,
        )

    def _patch(
        self,
        session: MemorySession,
        patch: SessionPatch,
        cursor: Mapping[str, Any] | None,
        variables: Mapping[str, Any] | None,
    ) -> None:
        """`cursor` and `variables` are the store's own copies."""
        if patch.agent is not None:
            session.agent = patch.agent
        if patch.status is not None:
            session.status = patch.status
        if patch.outcome is not None:
            session.outcome = patch.outcome or None
        if cursor is not None:
            session.cursor = cursor
        if variables is not None:
            session.variables = variables
        self._ready.pop(session.id, None)
        if session.status == "ready":
            self._ready[session.id] = session
        session.updated_at_us = self._clock.now_us()


def _results(session: MemorySession, steps: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of the results; `StepConflict`, `UserError`."""
    for key in steps:
        if key in session.steps:
            raise step_conflict(session.id, key)
    return {
        key: checked_copy(result, "step {!r} of session {!r}", key, session.id)
        for key, result in steps.items()
    }
