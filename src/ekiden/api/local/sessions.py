"""Sessions of a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from ekiden.api import sessions as api
from ekiden.api.local.context import LocalPart, moment_of
from ekiden.api.methods.values import Moment, Page, Pages
from ekiden.api.sessions import SessionState
from ekiden.core.errors import UserError
from ekiden.core.events import VERSIONED, Event, EventType, VersionReader
from ekiden.core.runs import Conclusion, run_id_of
from ekiden.core.text.keywords import alike
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.runtime.history.deletion import Pruned, delete_session, prune_sessions
from ekiden.runtime.history.fork import Rewind, fork_session, rewind_session
from ekiden.runtime.history.requests import RecordedRequest, recorded_request
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.runtime.questions.questions import PAUSES
from ekiden.runtime.state.cursor import OpenQuestion, open_questions
from ekiden.sessions import Session, chain_of, conversation
from ekiden.sessions.conversation import names_of, session_info, session_record
from ekiden.sessions.search import SessionHit, search_sessions
from ekiden.sessions.session import has_open_run, run_number
from ekiden.storage.base import SessionFilter, SessionPage, SessionRow, SessionStatus, Store

_DAY_S: Final = 86_400
_EVENTS_READ: Final = 1000
"""How many events are read at once when filtering by type."""


class LocalSessions(LocalPart, api.SessionsApi):
    """`SessionsApi` on a store in this process."""

    def list(
        self,
        *,
        state: Sequence[SessionState] = (),
        agent: str | None = None,
        user: str | None = None,
        outcome: api.OutcomeName | None = None,
        conclusion: Conclusion | None = None,
        text: str | None = None,
    ) -> Pages[api.SessionSummary]:
        where = SessionFilter(agent=agent, user_id=user, outcome=outcome, conclusion=conclusion)

        async def fetch(limit: int, cursor: str | None) -> Page[api.SessionSummary]:
            found = await find_sessions(
                self._store, where, states=state, text=text or "", limit=limit, cursor=cursor
            )
            return Page(items=[*map(summary_of, found.sessions)], next_cursor=found.next_cursor)

        return Pages(fetch)

    def search(self, q: str, *, user: str | None = None, limit: int = 20) -> Pages[SessionHit]:
        async def fetch(_limit: int, _cursor: str | None) -> Page[SessionHit]:
            return Page(items=await search_sessions(self._store, q, user_id=user, limit=limit))

        return Pages(fetch)

    async def import_(
        self,
        document: Mapping[str, Any] | bytes,
        *,
        id: str | None = None,
        user: str | None = None,
    ) -> api.ImportedSession:
        session = await import_session(self._store, document, new_id=id, user_id=user)
        row = await session.row()
        return api.ImportedSession(
            session_id=row.id, agent=row.agent, user_id=row.user_id, events=row.seq
        )

    async def prune(
        self,
        *,
        older_than: Moment | None = None,
        keep: int | None = None,
        user: str | None = None,
        status: Sequence[SessionStatus] = (),
        dry_run: bool = False,
    ) -> Pruned:
        age_s, keep = self._rule(older_than, keep)
        with self._context.one_at_a_time("prune"):
            return await prune_sessions(
                self._store,
                older_than_s=age_s,
                keep_last=keep,
                user_id=user,
                status={"idle", *status},
                dry_run=dry_run,
                progress=self._context.progress,
            )

    async def get(self, session_id: str) -> api.SessionDetails:
        row = await self._store.get(session_id)
        return details_of(row, await self._store.events(session_id))

    async def delete(self, session_id: str) -> None:
        await delete_session(self._store, session_id)

    def events(
        self, session_id: str, *, after: int = 0, types: Sequence[EventType] = ()
    ) -> Pages[api.SessionEvent]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.SessionEvent]:
            await self._store.get(session_id)
            start = max(after, int(cursor or 0))
            found = await _events(self._store, session_id, start, limit + 1, frozenset(types))
            items = await _with_versions(self._store, session_id, found[:limit])
            return Page(items=items, next_cursor=str(items[-1].seq) if found[limit:] else None)

        return Pages(fetch)

    async def request(self, session_id: str, seq: int) -> RecordedRequest:
        return await recorded_request(self._store, session_id, seq)

    def items(self, session_id: str) -> Pages[Mapping[str, Any]]:
        async def fetch(limit: int, cursor: str | None) -> Page[Mapping[str, Any]]:
            await self._store.get(session_id)
            items = await Session(session_id, store=self._store).get_items()
            start = int(cursor or 0)
            end = start + limit
            return Page(items=items[start:end], next_cursor=str(end) if items[end:] else None)

        return Pages(fetch)

    async def chain(self, session_id: str) -> api.SessionChain:
        row = await self._store.get(session_id)
        return handoff_chain(row, await self._store.events(session_id))

    async def export(self, session_id: str) -> Mapping[str, Any]:
        return await export_session(self._store, session_id)

    async def fork(
        self,
        origin: str,
        *,
        at: int | None = None,
        before: int | None = None,
        session_id: str | None = None,
    ) -> api.ForkedSession:
        row = await self._store.get(origin)
        if at is not None and before is not None:
            raise UserError("give `at` or `before`, not both")
        if at is None and before is None:
            if not row.seq:
                raise UserError(f"{origin} has no events yet: there is nothing to fork")
            at = row.seq
        branch = await fork_session(
            self._store, origin, before_seq=before, at_seq=at, new_id=session_id
        )
        fork = await branch.row()
        return api.ForkedSession(
            session_id=fork.id,
            forked_from=fork.meta["forked_from"],
            forked_at=fork.meta["forked_at"],
            agent=fork.agent,
            events=fork.seq,
            unfinished=has_open_run(fork),
        )

    async def rewind(self, session_id: str, to: int) -> Rewind:
        return await rewind_session(self._store, session_id, to_seq=to)

    def _rule(self, older_than: Moment | None, keep: int | None) -> tuple[float | None, int | None]:
        """The age and number of sessions to keep; `UserError` if neither is set."""
        then = moment_of(older_than, what="older_than")
        if then is not None:
            age_s = (datetime.now(UTC) - then).total_seconds()
            if age_s < 0:
                raise UserError(f"older_than {str(older_than)!r} is in the future")
            return age_s, keep
        if keep is not None:
            return None, keep
        settings = self._context.settings.retention
        if not settings.has_rules:
            raise UserError(
                "name the sessions to delete: older_than (--older-than 30d), keep (--keep "
                "1000), or the settings retention.days and retention.count"
            )
        return None if settings.days is None else settings.days * _DAY_S, settings.count


def summary_of(row: SessionRow) -> api.SessionSummary:
    """A session without its messages."""
    return api.SessionSummary(**_summary(row))


def details_of(row: SessionRow, events: Sequence[Event]) -> api.SessionDetails:
    """A session with its conversation."""
    return api.SessionDetails(
        **_summary(row),
        variables=dict(row.variables),
        items=conversation(events),
        handoffs=chain_of(events),
        metadata=session_info(row, events).metadata,
    )


def handoff_chain(row: SessionRow, events: Sequence[Event]) -> api.SessionChain:
    """Return the agents of the session in order, its handoffs, and the answer or event that the
    session waits for."""
    handoffs = chain_of(events)
    records = {each.id: each for each in records_of(events)}
    return api.SessionChain(
        session_id=row.id,
        chain=names_of(row, handoffs),
        handoffs=[_handoff(each, records.get(str(each.get("id")))) for each in handoffs],
        waiting_for=_wait_reason(events) if row.status == "waiting" else None,
    )


def _summary(row: SessionRow) -> dict[str, Any]:
    title, number = row.meta.get("title"), run_number(row)
    return {
        **session_record(row),
        "state": state_of(row),
        "title": None if title is None else str(title),
        "run_id": run_id_of(row.id, number) if number else None,
        "waiting_for": waiting_for(row),
    }


def _handoff(entry: Mapping[str, Any], record: HandoffRecord | None) -> dict[str, Any]:
    """A handoff of a chain, with its requester and duration."""
    if record is None:
        return dict(entry)
    data = {**entry, "policy": record.policy, "by": record.by.to_json()}
    if record.settled_at is not None:
        data["duration_ms"] = round((record.settled_at - record.started_at) * 1e3, 3)
    return data


def _wait_reason(events: Sequence[Event]) -> str:
    for event in reversed(events):
        details = event.details or {}
        if event.type == "agent_complete" and details.get("outcome") == "waiting":
            return str(details.get("reason") or "somebody")
    return "somebody"


async def _events(
    store: Store, session_id: str, after: int, wanted: int, types: frozenset[str]
) -> Sequence[Event]:
    """At most `wanted` events of these types after the event number `after`."""
    found: list[Event] = []
    while True:
        size = _EVENTS_READ if types else wanted
        events = await store.events(session_id, after=after, limit=size)
        found += [event for event in events if not types or event.type in types]
        if len(found) >= wanted or len(events) < size:
            return found[:wanted]
        after = events[-1].seq


async def _with_versions(
    store: Store, session_id: str, events: Sequence[Event]
) -> Sequence[api.SessionEvent]:
    """The events with the versions of their agents, which earlier events may have recorded."""
    reader = VersionReader()
    found = [reader.made_by(event) for event in events]
    is_known = [
        made_by is not None or event.type not in VERSIONED
        for made_by, event in zip(found, events, strict=True)
    ]
    if not all(is_known):
        reader, wanted = VersionReader(), {event.seq for event in events}
        earlier = await store.events(session_id, limit=events[-1].seq)
        every = {event.seq: reader.made_by(event) for event in earlier}
        found = [every[seq] for seq in sorted(wanted)]
    return [
        api.SessionEvent(**event.to_json(), made_by=made_by)
        for event, made_by in zip(events, found, strict=True)
    ]


_PERSON: Final = "person"
_FAILED: Final = frozenset({"failed", "out_of_budget"})
_MAX_READ: Final = 500
"""The maximum number of sessions that are read at once."""
_MIN_READ: Final = 50
_MAX_SCANNED: Final = 20_000
"""The maximum number of sessions that are scanned for one page; the next page continues there."""


def state_of(row: SessionRow) -> SessionState:
    """Return the state of the session. Only the session's own questions count as waits."""
    if row.status == "ready" or (row.owner is not None and row.outcome is None):
        return "working"
    if row.status == "idle":
        return "failed" if row.outcome in _FAILED else "idle"
    questions = _questions(row)
    if questions and all(_is_pause(each) for each in questions):
        return "working"  # It resumes by itself.
    names = _names(questions)
    return "waiting_person" if not names or any(map(_is_person, names)) else "waiting_agent"


def waiting_for(row: SessionRow) -> list[str]:
    """The agents and people (``person:ROLE``) that a waiting session asked. The result is empty for
    a session that does not wait."""
    if row.status != "waiting":
        return []
    questions = _questions(row)
    return _names(questions) if questions else [_PERSON]


def _questions(row: SessionRow) -> list[OpenQuestion]:
    return list(open_questions(row).values())


def _names(questions: Iterable[OpenQuestion]) -> list[str]:
    names = [
        f"{_PERSON}:{each.recipient}" if each.kind == "inbox" else each.recipient
        for each in questions
        if not _is_pause(each)
    ]
    return list(dict.fromkeys(names))


def _is_pause(question: OpenQuestion) -> bool:
    return question.kind == "query" and question.recipient == PAUSES and question.session is None


def _is_person(name: str) -> bool:
    return name == _PERSON or name.startswith(f"{_PERSON}:")


async def find_sessions(
    store: Store,
    where: SessionFilter,
    *,
    states: Collection[SessionState] = (),
    text: str = "",
    limit: int,
    cursor: str | None = None,
) -> SessionPage:
    """One page of the sessions in one of `states` that match `text`, newest first.

    `text` is searched in the title, the id and the user of the session, and in the agent's name,
    ignoring case. Without states and text, all sessions match. If a search reads too many sessions,
    its page may be short or empty although another page follows.
    """
    wanted = alike(text.strip())
    if not states and not wanted:
        return await store.list(where, limit=limit, cursor=cursor)
    status = _status_of(states)
    if status is not None:
        if where.status not in (None, status):
            return SessionPage(sessions=(), next_cursor=None)
        where = replace(where, status=status)

    def fits(row: SessionRow) -> bool:
        return (not states or state_of(row) in states) and (not wanted or _matches(row, wanted))

    found: list[SessionRow] = []
    looked_at = 0
    size = max(4 * limit, _MIN_READ)
    while True:
        size = min(size, _MAX_READ)
        room = limit - len(found)
        rows, page = await _read(store, where, fits, size=size, room=room, cursor=cursor)
        size *= 2
        found += rows
        looked_at += len(page.sessions)
        cursor = page.next_cursor
        if cursor is None or len(found) == limit or looked_at >= _MAX_SCANNED:
            return SessionPage(sessions=found, next_cursor=cursor)


def _status_of(states: Collection[SessionState]) -> SessionStatus | None:
    """The status that all sessions in these states have; `None` if there is none."""
    if states and all(state.startswith("waiting_") for state in states):
        return "waiting"
    return "idle" if states and all(state in ("failed", "idle") for state in states) else None


async def _read(
    store: Store,
    where: SessionFilter,
    fits: Callable[[SessionRow], bool],
    *,
    size: int,
    room: int,
    cursor: str | None,
) -> tuple[list[SessionRow], SessionPage]:
    """The matches among the next `size` sessions, at most `room`, and their page."""
    # Only the end of a page has a cursor: with too many matches, a shorter page is read again.

    while True:
        page = await store.list(where, limit=size, cursor=cursor)
        places = [place for place, row in enumerate(page.sessions) if fits(row)]
        if len(places) <= room:
            return [page.sessions[place] for place in places], page
        size = places[room - 1] + 1


def _matches(row: SessionRow, wanted: str) -> bool:
    texts = (row.meta.get("title"), row.id, row.user_id, row.agent)
    return any(wanted in alike(str(each)) for each in texts if each is not None)
