"""Spans as they end, while events come in: for those who send each span once."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ekiden.core.errors import SessionNotFound
from ekiden.core.events import Event
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.records import is_copied
from ekiden.tracing.builder import SpanBuilder
from ekiden.tracing.parts import Part
from ekiden.tracing.reading import builder_for, trace_context
from ekiden.tracing.spans import Span

_PAGE = 1000
_MOST_SESSIONS = 1000

_log = logging.getLogger("ekiden.tracing")


class EndedSpans:
    """The spans of one session that an event ends; which those are depends on the events alone, so
    whoever begins anew finds the same."""

    def __init__(self, builder: SpanBuilder, *, first: int = 1, is_wanted: bool = True) -> None:
        """Events before `first` happened elsewhere. Without `is_wanted` nothing is told."""
        self._builder = builder
        self._first = first
        self._is_wanted = is_wanted
        self._held: Part | None = None
        """A handoff that is over before its target was heard of: its link is not known yet."""
        self.last_seq = 0

    @property
    def top(self) -> tuple[str, str | None]:
        """The id of the session's span, and of what it is below."""
        return self._builder.session.id, self._builder.session.parent_id

    def add(self, event: Event) -> list[Span]:
        """Take the next event."""
        self.last_seq = event.seq
        if event.seq < self._first or not self._is_wanted:
            return []
        builder = self._builder
        builder.add(event)
        over = [part for began, part in builder.take() if not began]
        held = self._held
        if held is not None and (builder.arriving is not held or builder.run is None):
            over.append(held)
            self._held = None
        if builder.arriving in over and builder.run is not None:
            self._held = builder.arriving
        return [builder.span(part) for part in over if part is not self._held]


@dataclass(slots=True, kw_only=True)
class Ended:
    """Spans that ended, with what their sessions are below."""

    spans: list[Span] = field(default_factory=list)
    tops: dict[str, str | None] = field(default_factory=dict)


class SessionsEnding:
    """Reads the events of a store's feed, of any sessions; what it does not know any more of a
    session it reads from the store."""

    def __init__(self, store: Store, *, most: int = _MOST_SESSIONS) -> None:
        self._store = store
        self._most = most
        self._known: OrderedDict[str, EndedSpans] = OrderedDict()

    async def read(self, events: Iterable[Event]) -> Ended:
        """What these events end; they follow those of the last call.

        Of a session that is gone there is nothing. One whose events cannot be understood is left
        out, with a line in the log.
        """
        by_session: dict[str, list[Event]] = {}
        for event in events:
            if event.session_id:
                by_session.setdefault(event.session_id, []).append(event)
        found = Ended()
        for session_id, own in by_session.items():
            session = await self._session(session_id, own[0].seq)
            if session is None:
                continue
            try:
                for event in own:
                    found.spans += session.add(event)
            except Exception:
                _log.exception("session %s cannot be traced", session_id)
                self._known.pop(session_id, None)
                continue
            top, above = session.top
            found.tops[top] = above
        return found

    async def _session(self, session_id: str, seq: int) -> EndedSpans | None:
        """The session as it was before the event of this number; `None` if it is gone."""
        known = self._known.get(session_id)
        if known is None or known.last_seq != seq - 1:
            known = await self._replayed(session_id, seq)
            if known is None:
                self._known.pop(session_id, None)
                return None
            self._known[session_id] = known
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(session_id)
        return known

    async def _replayed(self, session_id: str, seq: int) -> EndedSpans | None:
        try:
            row = await self._store.get(session_id)
        except SessionNotFound:
            return None
        context = await trace_context(self._store, row)
        session = EndedSpans(
            builder_for(row, context, is_live=True),
            first=await self._first_own(row),
            is_wanted=context.is_sampled,
        )
        while session.last_seq < seq - 1:
            limit = min(seq - 1 - session.last_seq, _PAGE)
            page = await self._store.events(session_id, after=session.last_seq, limit=limit)
            if not page:
                break
            try:
                for event in page:
                    session.add(event)
            except Exception:
                _log.exception("session %s cannot be traced", session_id)
                return None
        return session

    async def _first_own(self, row: SessionRow) -> int:
        """The number of the first event that is no copy; as `own_events` has it."""
        last = row.meta.get("forked_at") if "forked_from" in row.meta else None
        if not isinstance(last, int):
            return 1
        for event in await self._store.events(row.id, after=max(last - 1, 0), limit=1):
            return last + is_copied(row, event)
        return last
