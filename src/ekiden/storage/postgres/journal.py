"""The store as `Journal`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.values import loads
from ekiden.storage.base import Claim, Commit, EventFilter, EventPage
from ekiden.storage.chain import EventDigest, own_digest
from ekiden.storage.postgres.feed import NUMBER, page_sql
from ekiden.storage.postgres.role import Role
from ekiden.storage.postgres.rows import (
    EVENT,
    WRITTEN_EVENT,
    events_of,
    from_column,
    from_column_or_null,
    to_column,
)
from ekiden.storage.postgres.writing.commits import store_commit
from ekiden.storage.postgres.writing.statements import Gathering
from ekiden.storage.values import check_limit, collector_paused, event_page, prefix_end

_PAGE = 5_000
"""Events are fetched in portions, so that a long history does not hold up the event loop."""

_EVENTS = f"""
select {EVENT} from events
where session = {NUMBER.format("$1::text")} and events.seq > $2
order by events.seq limit $3"""
_ITEMS = _EVENTS.replace("order by", "and events.items is not null order by")
_DIGESTS = _EVENTS.replace(EVENT, WRITTEN_EVENT)
_STEPS = """
select key, result from steps
where session = (select num from sessions where id = $1)
    and key >= $2 and ($3::text is null or key < $3)"""


class Journal(Role):
    """What happened in a session."""

    _gathering: Gathering

    async def commit(self, claim: Claim, commit: Commit) -> None:
        handle = await self._handle(claim)
        fault_point("store.postgres.before_commit")
        topics = await store_commit(self._database, self._gathering, handle, claim, commit)
        fault_point("store.postgres.after_commit")
        self._changes.changed(topics)

    async def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        with_items: bool = False,
    ) -> Sequence[Event]:
        sql = _ITEMS if with_items else _EVENTS
        stored_id = to_column(session_id)
        events: list[Event] = []
        while True:
            size = _PAGE if limit is None else min(_PAGE, limit - len(events))
            last = events[-1].seq if events else after
            page = await self._database.query(sql, stored_id, last, size, repeatable=True)
            # Only here: a collector that rests while others have the event loop may rest for long.
            with collector_paused():
                events += events_of([session_id] * len(page), page)
            if len(page) < size or len(events) == limit:
                return events

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        stored_id = to_column(session_id)
        rows = await self._database.query(_DIGESTS, stored_id, after, limit, repeatable=True)
        return [_digest_of(session_id, *row) for row in rows]

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        check_limit(limit)
        sql, args = page_sql(where, limit, cursor)
        rows = await self._database.query(sql, *args, repeatable=True)
        page = rows[:limit]
        events = events_of([from_column(row[1]) for row in page], [tuple(row)[2:] for row in page])
        return event_page(events, [row[0] for row in page], more=len(rows) > limit)

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        begin = to_column(prefix)
        args = (to_column(session_id), begin, prefix_end(begin))
        found = await self._database.query(_STEPS, *args, repeatable=True)
        return {from_column(key): loads(result) for key, result in found}


def _digest_of(session_id: str, seq: int, type: str, at_us: int, *stored: Any) -> EventDigest:
    agent, step, duration_us, details, items, error, commit = stored
    own = own_digest(
        session_id,
        seq,
        type,
        at_us,
        from_column_or_null(agent),
        from_column_or_null(step),
        duration_us,
        details,
        items,
        from_column_or_null(error),
    )
    return EventDigest(seq, own, commit)
