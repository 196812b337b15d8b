"""Sessions of the in-memory store: their events in order, their leases, and event search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from ekiden.core.errors import SessionBusy, SessionExists, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.roles import Clock
from ekiden.storage.base import (
    Claim,
    EventFilter,
    EventPage,
    NewSession,
    SessionFilter,
    SessionOpening,
    SessionPage,
    SessionPatch,
    SessionRow,
    SessionStatus,
)
from ekiden.storage.chain import GENESIS, seal, set_head
from ekiden.storage.changes import LAPSE_S, ChangeSignal
from ekiden.storage.records import HEAD_START_S, NORMAL, check_priority
from ekiden.storage.values import (
    check_limit,
    check_numbers,
    check_session_id,
    checked_copy,
    closed_store,
    copy_json,
    event_page,
    parse_cursor,
    parse_event_cursor,
    parse_feed_cursor,
)

_FEW = 64


class MemorySession:
    """A session's row and journal."""

    __slots__ = (
        "agent",
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
        """`UserError` for an empty id, a priority that is none, or a `meta` that is not JSON."""
        if not new.id or new.priority is not NORMAL:
            check_session_id(new.id)
            check_priority(new)
        self.priority = new.priority
        self.head_start_us = HEAD_START_S[self.priority] * 1_000_000
        self.place_us = 0
        """Its place among the ready sessions, while it is ready."""
        self.id = new.id
        self.number = number
        self.agent = new.agent
        self.status: SessionStatus = new.status
        self.outcome: str | None = None
        self.user_id = new.user_id
        self.meta: dict[str, Any] = {}
        if new.meta:
            self.meta = checked_copy(new.meta, "`meta` of session {!r}", new.id)
        self.cursor: dict[str, Any] = {}
        self.variables: Mapping[str, Any] = {}
        self.seq = 0
        self.epoch = 0
        self.owner: str | None = None
        self.until = 0.0
        self.wakes = 0
        self.created_at_us = self.updated_at_us = now_us
        self.events: list[Event] = []
        self.sealed = 0
        """So many of them have their hashes."""
        self.head = GENESIS
        """The hash of the last of these."""
        self.steps: dict[str, Any] = {}

    def matches(self, where: SessionFilter) -> bool:
        """Whether a list with this filter shows it."""
        return (
            (where.status is None or where.status == self.status)
            and (where.agent is None or where.agent == self.agent)
            and (where.user_id is None or where.user_id == self.user_id)
            and (where.outcome is None or where.outcome == self.outcome)
        )

    def seal(self) -> None:
        """Compute the audit hashes that were put off, before a read."""
        if self.sealed < len(self.events):
            self.head = seal(self.events[self.sealed :], self.head)
            self.sealed = len(self.events)
        if self.head and isinstance(self.cursor, dict):
            set_head(self.cursor, self.head)

    def row(self, now: float) -> SessionRow:
        """As it is given out, at a time of the leases' clock."""
        self.seal()
        return SessionRow(
            id=self.id,
            agent=self.agent,
            status=self.status,
            outcome=self.outcome,
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


class MemoryFeed:
    """The log of all events, and those of no session.

    The events of a deleted session are passed over, and let go once they are more than half of
    the log. Places never change: the n-th event has the cursor n.
    """

    __slots__ = ("_dead", "_dropped", "_log", "free")

    def __init__(self) -> None:
        self.free: list[Event] = []
        """Of no session."""
        self._log: list[Event | None] = []
        self._dropped = 0
        """So many events are gone from the beginning of the log."""
        self._dead = 0

    @property
    def end(self) -> str:
        """The cursor after the last event."""
        return str(self._dropped + len(self._log))

    def extend(self, events: Sequence[Event]) -> None:
        """These were stored."""
        self._log.extend(events)

    def add_free(self, events: Sequence[Event]) -> None:
        """Events of no session were stored; they get their numbers."""
        for number, event in enumerate(events, start=len(self.free) + 1):
            numbered = Event(
                session_id="",
                seq=number,
                type=event.type,
                at_us=event.at_us,
                agent=event.agent,
                step=event.step,
                duration_us=event.duration_us,
                details=event.details,
                items=event.items,
                error=event.error,
            )
            self.free.append(numbered)
            self._log.append(numbered)

    def forget(self, deleted: MemorySession, sessions: Mapping[str, MemorySession]) -> None:
        """A session was deleted; `sessions` are the others."""
        self._dead += deleted.seq
        if self._dead <= _FEW + len(self._log) // 2:
            return
        self._dead = 0
        kept = [each if each and _is_stored(each, sessions) else None for each in self._log]
        first = next((place for place, each in enumerate(kept) if each), len(kept))
        self._dropped += first
        self._log = kept[first:]

    def page(
        self, sessions: Mapping[str, MemorySession], after: str | None, limit: int
    ) -> EventPage:
        """The events behind the cursor."""
        check_limit(limit)
        place = 0 if after is None else parse_feed_cursor(after)
        events: list[Event] = []
        cursors: list[str] = []
        for number in range(max(place - self._dropped, 0), len(self._log)):
            event = self._log[number]
            if event is not None and _is_stored(event, sessions):
                if event.session_id:
                    sessions[event.session_id].seal()
                events.append(event)
                cursors.append(str(self._dropped + number + 1))
                if len(events) == limit:
                    break
        return EventPage(
            events=events, cursors=cursors, next_cursor=cursors[-1] if cursors else after
        )


def _is_stored(event: Event, sessions: Mapping[str, MemorySession]) -> bool:
    """Whether its session is still the one that it was written in."""
    if not event.session_id:
        return True
    session = sessions.get(event.session_id)
    return (
        session is not None
        and len(session.events) >= event.seq
        and session.events[event.seq - 1] is event
    )


class MemorySessions:
    """`SessionStore` and `LeaseStore` in memory: the lower half of `MemoryStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._advanced_s = 0.0
        self._sessions: dict[str, MemorySession] = {}
        self._ready: dict[int, dict[str, MemorySession]] = {}
        """By priority, the one that came first in front."""
        self._created = 0
        self._feed: MemoryFeed | None = None
        """`None` as long as one session is all there ever was: its events are the feed."""
        self._changes: ChangeSignal | None = None
        """Made for the first wait."""
        self._changed = False
        """Whether anything changed before it."""
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
        feed = self._whole_feed()
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

    # Within

    def _notify(self) -> None:
        """Something changed."""
        self._changed = True
        if self._changes is not None:
            self._changes.notify()

    def _check_open(self) -> None:
        if self._closed:
            raise closed_store(self.url)

    def _whole_feed(self) -> MemoryFeed:
        """The feed, from now on kept."""
        feed = self._feed
        if feed is None:
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
            self._whole_feed()
        self._created += 1
        self._sessions[session.id] = session
        if session.status == "ready":
            self._line_up(session, session.created_at_us)

    def _line_up(self, session: MemorySession, now_us: int) -> None:
        """It is ready from now on: it takes its place in the line."""
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
        """The sessions, not yet among the others; `SessionExists`, `StepConflict`, `UserError`."""
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
        """`cursor` and `variables` are the store's own copies."""
        if patch.agent is not None:
            session.agent = patch.agent
        if patch.status is not None:
            session.status = patch.status
            if patch.status == "waiting" and seen_wakes not in (None, session.wakes):
                session.status = "ready"
        if patch.outcome is not None:
            session.outcome = patch.outcome or None
        if cursor is not None:
            session.cursor = cursor
        if variables is not None:
            session.variables = variables
        session.updated_at_us = self._clock.now_us()
        self._leave_line(session)
        if session.status == "ready":
            self._line_up(session, session.updated_at_us)


_Place: TypeAlias = tuple[int, int, int]


def find_events(
    sessions: Iterable[MemorySession],
    free: Sequence[Event],
    where: EventFilter,
    limit: int,
    cursor: str | None,
) -> EventPage:
    """One page of the events that fit, of these sessions and of none; looks at all of them, so
    that a commit pays nothing."""
    check_limit(limit)
    after = None if cursor is None else parse_event_cursor(cursor)
    sessions = list(sessions)
    for each in sessions:
        each.seal()
    pick = nlargest if where.newest_first else nsmallest
    journals = chain([("", 0, free)], ((each.id, each.number, each.events) for each in sessions))
    found = pick(limit + 1, _fitting(journals, where, after), key=itemgetter(0))
    page = found[:limit]
    return event_page(
        [event for _, event in page],
        [session for (_, session, _), _ in page],
        more=len(found) > limit,
    )


def _fitting(
    journals: Iterable[tuple[str, int, Sequence[Event]]], where: EventFilter, after: _Place | None
) -> Iterator[tuple[_Place, Event]]:
    types = None if where.types is None else frozenset(where.types)
    for session_id, session, events in journals:
        if where.session_id is not None and session_id != where.session_id:
            continue
        for event in events:
            place = (event.at_us, session, event.seq)
            if (
                (types is None or event.type in types)
                and (where.since_us is None or event.at_us >= where.since_us)
                and (where.until_us is None or event.at_us < where.until_us)
                and (after is None or (place < after if where.newest_first else place > after))
            ):
                yield place, event
