"""Sessions of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ekiden.api import sessions as api
from ekiden.api.local.place import Here, moment_of
from ekiden.api.methods.values import Moment, Page, Pages
from ekiden.api.sessions import SessionState, find_sessions, state_of, waiting_for
from ekiden.core.errors import UserError
from ekiden.core.events import Event, EventType
from ekiden.core.runs import run_id_of
from ekiden.handoff.records.records import HandoffRecord, records_of
from ekiden.runtime.history.deletion import delete_session
from ekiden.runtime.history.fork import Rewind, fork_session, rewind_session
from ekiden.runtime.history.retention import Pruned, prune_sessions
from ekiden.runtime.history.session_export import export_session
from ekiden.runtime.history.session_import import import_session
from ekiden.sessions import Session, chain_of, conversation
from ekiden.sessions.conversation import names_of, session_info, session_record
from ekiden.sessions.progress import has_open_run, run_number
from ekiden.sessions.search import SessionHit, search_sessions
from ekiden.storage.base import SessionFilter, SessionRow, SessionStatus, Store

_DAY_S: Final = 86_400
_READ: Final = 1000
"""How many events are read at once when filtering by type."""


class LocalSessions(api.SessionsApi):
    """See `Sessions`."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._store = here.store

    def list(
        self,
        *,
        state: Sequence[SessionState] = (),
        agent: str | None = None,
        user: str | None = None,
        outcome: api.OutcomeName | None = None,
        text: str | None = None,
    ) -> Pages[api.SessionSummary]:
        where = SessionFilter(agent=agent, user_id=user, outcome=outcome)

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
        with self._here.one_at_a_time("prune"):
            return await prune_sessions(
                self._store,
                older_than_s=age_s,
                keep_last=keep,
                user_id=user,
                status={"idle", *status},
                dry_run=dry_run,
                progress=self._here.progress,
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
            items = [api.SessionEvent(**each.to_json()) for each in found[:limit]]
            return Page(items=items, next_cursor=str(items[-1].seq) if found[limit:] else None)

        return Pages(fetch)

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
        made = await branch.row()
        return api.ForkedSession(
            session_id=made.id,
            forked_from=made.meta["forked_from"],
            forked_at=made.meta["forked_at"],
            agent=made.agent,
            events=made.seq,
            unfinished=has_open_run(made),
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
        settings = self._here.settings.retention
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
    """The agents that had the session, in order, each handoff, and what it waits for."""
    handoffs = chain_of(events)
    records = {each.id: each for each in records_of(events)}
    return api.SessionChain(
        session_id=row.id,
        chain=names_of(row, handoffs),
        handoffs=[_handoff(each, records.get(str(each.get("id")))) for each in handoffs],
        waiting_for=_waiting_for(events) if row.status == "waiting" else None,
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


def _handoff(told: Mapping[str, Any], record: HandoffRecord | None) -> dict[str, Any]:
    """A handoff of a chain, with its requester and duration."""
    if record is None:
        return dict(told)
    data = {**told, "policy": record.policy, "by": record.by.to_json()}
    if record.settled_at is not None:
        data["duration_ms"] = round((record.settled_at - record.started_at) * 1e3, 3)
    return data


def _waiting_for(events: Sequence[Event]) -> str:
    for event in reversed(events):
        details = event.details or {}
        if event.type == "agent_complete" and details.get("outcome") == "waiting":
            return str(details.get("reason") or "somebody")
    return "somebody"


async def _events(
    store: Store, session_id: str, after: int, wanted: int, types: frozenset[str]
) -> Sequence[Event]:
    """At most `wanted` events after `after` of one of the types."""
    found: list[Event] = []
    while True:
        size = _READ if types else wanted
        events = await store.events(session_id, after=after, limit=size)
        found += [event for event in events if not types or event.type in types]
        if len(found) >= wanted or len(events) < size:
            return found[:wanted]
        after = events[-1].seq
