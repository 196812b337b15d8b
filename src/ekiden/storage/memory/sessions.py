"""Sessions of the in-memory store: their rows, events and leases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ekiden.core.errors import SessionBusy, SessionExists, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.roles import Clock
from ekiden.storage.base import (
    Claim,
    NewSession,
    SessionFilter,
    SessionOpening,
    SessionPage,
    SessionPatch,
    SessionRow,
    SessionStatus,
)
from ekiden.storage.chain import GENESIS, seal, set_head
from ekiden.storage.records import HEAD_START_S, NORMAL, check_priority, new_row
from ekiden.storage.timers import LAPSE_S, ChangeSignal
from ekiden.storage.values import (
    check_numbers,
    check_session_id,
    checked_copy,
    closed_store,
    copy_json,
    parse_cursor,
)

if TYPE_CHECKING:
    from ekiden.storage.memory.documents import MemoryFeed


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class MemorySession:
    """A session's row and journal."""

    __slots__ = (
        "agent",
        "conclusion",
        "created_at_us",
        "cursor",
        "epoch",
        "events",
        "head",
        "head_start_us",
        "id",
        "meta",
        "number",
        "outcome",
        "owner",
        "place_us",
        "priority",
        "sealed",
        "seq",
        "status",
        "steps",
        "until",
        "updated_at_us",
        "user_id",
        "variables",
        "wakes",
    )

    def __init__(self, new: NewSession, number: int, now_us: int) -> None:
        """Raises `UserError` for an empty id, an invalid priority, or `meta` that is not JSON."""
        # Compared by identity, so that equal values of other types, such as 2.0, are checked, too.
        if not new.id or new.priority is not NORMAL:
            check_session_id(new.id)
            check_priority(new)
        self.priority = new.priority
        self.head_start_us = HEAD_START_S[self.priority] * 1_000_000
        self.place_us = 0
        """The position in the queue of ready sessions, while the session is ready."""
        self.id = new.id
        self.number = number
        self.agent = new.agent
        self.status: SessionStatus = new.status
        self.outcome: str | None = None
        self.conclusion: str | None = None
        self.user_id = new.user_id
        self.meta = _NOTHING
        if new.meta:
            self.meta = checked_copy(new.meta, "`meta` of session {!r}", new.id)
        self.cursor: dict[str, Any] = {}
        self.variables = _NOTHING
        self.seq = 0
        self.epoch = 0
        self.owner: str | None = None
        self.until = 0.0
        self.wakes = 0
        self.created_at_us = self.updated_at_us = now_us
        self.events: list[Event] = []
        self.sealed = 0
        """The number of events whose audit hashes are computed."""
        self.head = GENESIS
        """The hash of the last audited one of these events."""
        self.steps: dict[str, Any] = {}

    def matches(self, where: SessionFilter) -> bool:
        """Whether the session matches the filter."""
        return (
            (where.status is None or where.status == self.status)
            and (where.agent is None or where.agent == self.agent)
            and (where.user_id is None or where.user_id == self.user_id)
            and (where.outcome is None or where.outcome == self.outcome)
            and (where.conclusion is None or where.conclusion == self.conclusion)
        )

    def seal(self) -> None:
        """Compute the deferred audit hashes; called before a read."""
        if self.sealed < len(self.events):
            self.head = seal(self.events[self.sealed :], self.head)
            self.sealed = len(self.events)
        if self.head and isinstance(self.cursor, dict):
            set_head(self.cursor, self.head)

    def row(self, now: float) -> SessionRow:
        """The row for callers; `now` is a time of the lease clock."""
        self.seal()
        return new_row(
            id=self.id,
            agent=self.agent,
            status=self.status,
            outcome=self.outcome,
            conclusion=self.conclusion,
            user_id=self.user_id,
            meta=copy_json(self.meta) if self.meta else {},
            cursor=copy_json(self.cursor) if self.cursor else {},
            variables=copy_json(self.variables) if self.variables else {},
            seq=self.seq,
            epoch=self.epoch,
            owner=self.owner if self.until > now else None,
            created_at_us=self.created_at_us,
            updated_at_us=self.updated_at_us,
            wakes=self.wakes,
            priority=self.priority,
        )


class MemorySessions:
    """The base class of `MemoryStore`, with `SessionStore` and `LeaseStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._advanced_s = 0.0
        self._sessions: dict[str, MemorySession] = {}
        self._ready: dict[int, dict[str, MemorySession]] = {}
        """The ready sessions of each priority, the first in the queue first."""
        self._created = 0
        """The number of sessions that were ever created."""
        self._feed: MemoryFeed | None = None
        """`None` while the store never had more than one session: its events are the feed."""
        self._changes: ChangeSignal | None = None
        """Created by the first wait."""
        self._changed = False
        """Whether anything changed before the first wait."""
        self._closed = False

    @property
    def url(self) -> str:
        return "memory:"

    async def create(self, new: NewSession) -> None:
        self._check_open()
        if new.id in self._sessions:
            raise SessionExists(new.id)
        self._create(new)
        self._notify()

    async def get(self, session_id: str) -> SessionRow:
        self._check_open()
        return self._find(session_id).row(self._advanced_s)

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
            page.append(session.row(self._advanced_s))
            last = session.number
        return SessionPage(sessions=page, next_cursor=None)

    async def delete(self, session_id: str) -> None:
        self._check_open()
        session = self._find(session_id)
        self._check_free(session)
        feed = self._kept_feed()
        del self._sessions[session_id]
        self._leave_line(session)
        feed.forget(session, self._sessions)
        self._notify()

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
        first: MemorySession | None = None
        for priority in HEAD_START_S:
            session = self._first_free(self._ready.get(priority, {}), agents)
            if session is not None and (first is None or session.place_us < first.place_us):
                first = session
        return None if first is None else self._take(first, owner, lease_s)

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
            self._notify()

    async def wait_for_change(
        self, timeout_s: float, *, about: Collection[str] | None = None
    ) -> None:
        self._check_open()
        if self._changes is None:
            self._changes = ChangeSignal()
            if self._changed:
                self._changes.notify()
        await self._changes.wait(timeout_s)

    async def wait_for_ready(
        self, agents: Collection[str], timeout_s: float, *, has_room: Callable[[], bool]
    ) -> None:
        await self.wait_for_change(min(timeout_s, LAPSE_S))

    # Internal

    def _notify(self) -> None:
        self._changed = True
        if self._changes is not None:
            self._changes.notify()

    def _check_open(self) -> None:
        if self._closed:
            raise closed_store(self.url)

    def _kept_feed(self) -> MemoryFeed:
        """The feed, which is created at the first call and kept up to date from then on."""
        feed = self._feed
        if feed is None:
            from ekiden.storage.memory.documents import MemoryFeed

            feed = self._feed = MemoryFeed()
            for session in self._sessions.values():
                feed.extend(session.events)
        return feed

    def _create(self, new: NewSession) -> MemorySession:
        session = MemorySession(new, self._created + 1, self._clock.now_us())
        self._add(session)
        return session

    def _add(self, session: MemorySession) -> None:
        if self._created == 1:
            self._kept_feed()
        self._created += 1
        self._sessions[session.id] = session
        if session.status == "ready":
            self._line_up(session, session.created_at_us)

    def _line_up(self, session: MemorySession, now_us: int) -> None:
        """Put a session that became ready into the queue."""
        session.place_us = now_us + int(self._advanced_s * 1e6) - session.head_start_us
        self._ready.setdefault(session.priority, {})[session.id] = session

    def _leave_line(self, session: MemorySession) -> None:
        if line := self._ready.get(session.priority):
            line.pop(session.id, None)

    def _first_free(
        self, line: Mapping[str, MemorySession], agents: Collection[str] | None
    ) -> MemorySession | None:
        for session in line.values():
            if agents is not None and session.agent not in agents:
                continue
            if session.owner is None or session.until <= self._advanced_s:
                return session
        return None

    def _stage_openings(self, openings: Sequence[SessionOpening]) -> Sequence[MemorySession]:
        """The new sessions, for `_open_sessions`; raises `SessionExists`, `StepConflict` or
        `UserError`."""
        staged: dict[str, MemorySession] = {}
        now_us = self._clock.now_us()
        for opening in openings:
            new = opening.new
            if new.id in self._sessions or new.id in staged:
                raise SessionExists(new.id)
            session = MemorySession(new, self._created + len(staged) + 1, now_us)
            if opening.events:
                check_numbers(new.id, 0, opening.events)
                session.events.extend(opening.events)
                session.seq = len(session.events)
            session.cursor = checked_copy(opening.cursor, "the cursor of session {!r}", new.id)
            session.variables = checked_copy(
                opening.variables, "`variables` of session {!r}", new.id
            )
            staged[new.id] = session
        return list(staged.values())

    def _open_sessions(self, staged: Sequence[MemorySession]) -> None:
        for session in staged:
            self._add(session)
            if self._feed is not None:
                self._feed.extend(session.events)

    def _wake(self, session_ids: Sequence[str]) -> None:
        for session_id in session_ids:
            session = self._sessions.get(session_id)
            if session is None:
                continue
            session.wakes += 1
            if session.status == "waiting":
                session.status = "ready"
                session.updated_at_us = self._clock.now_us()
                self._line_up(session, session.updated_at_us)

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
        return claim, session.row(self._advanced_s)

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

    def _patch(
        self,
        session: MemorySession,
        patch: SessionPatch,
        cursor: dict[str, Any] | None,
        variables: Mapping[str, Any] | None,
        seen_wakes: int | None,
    ) -> None:
        """Change the row; `cursor` and `variables` are the store's own copies."""
        if patch.agent is not None:
            session.agent = patch.agent
        if patch.status is not None:
            session.status = patch.status
            # The session was woken after the run read `wakes`: suspending it would lose the wake.
            if patch.status == "waiting" and seen_wakes not in (None, session.wakes):
                session.status = "ready"
        if patch.outcome is not None:
            session.outcome = patch.outcome or None
            session.conclusion = patch.conclusion
        if cursor is not None:
            session.cursor = cursor
        if variables is not None:
            session.variables = variables
        session.updated_at_us = self._clock.now_us()
        self._leave_line(session)
        if session.status == "ready":
            self._line_up(session, session.updated_at_us)
