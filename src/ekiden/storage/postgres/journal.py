"""The journal in PostgreSQL: commits, events, steps and the feed.

Feed cursors are transaction numbers (`xid`), then session and event number. A transaction with a
lower number may commit later than one with a higher number. The feed therefore returns only events
below a horizon: the lowest number of a running transaction that may still add events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ekiden.core.errors import UserError
from ekiden.core.events import AUDITED, Event
from ekiden.core.faults import fault_point
from ekiden.core.values import dumps, loads
from ekiden.storage.base import Claim, Commit, EventFilter, EventPage
from ekiden.storage.chain import EventDigest, own_digest
from ekiden.storage.copying import FOLLOWERS
from ekiden.storage.postgres.changes import Role
from ekiden.storage.postgres.commits import store_commit
from ekiden.storage.postgres.group_commit import CommitGroups
from ekiden.storage.postgres.rows import (
    EVENT,
    WRITTEN_EVENT,
    events_of,
    from_column,
    from_column_or_null,
    to_column,
)
from ekiden.storage.values import (
    check_limit,
    collector_paused,
    event_page,
    parse_event_cursor,
    prefix_end,
)

_INDEXED = "type in ('guardrail', 'handoff', 'inbox', 'route', 'tool_confirmation')"
"""The condition of the index, word for word: the planner does not know the values of parameters."""

NUMBER = "case {0} when '' then 0 else (select num from sessions where id = {0}) end"
"""The number of the session with this id; 0 stands for events outside sessions."""

COLUMNS = ", ".join(f"events.{column.strip()}" for column in EVENT.split(","))
"""The `EVENT` columns with the name of their table, for joins."""
_BEGINNING = (-(2**63), 0, 0)
_CURSOR = re.compile(r"(-?[0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)
_IS_FINAL = "xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint as is_final"
_BELOW = "($1::bigint is null or xid < $1)"
_FEED = f"""
select {_IS_FINAL}, xid, session, coalesce(sessions.id, ''), {COLUMNS}
from events left join sessions on sessions.num = session
where {_BELOW} and (xid, session, events.seq) > ($2, $3, $4)
order by xid, session, events.seq limit $5"""
_END = f"""
select {_IS_FINAL}, xid, session, seq from events where {_BELOW}
order by xid desc, session desc, seq desc limit 1"""
# The snapshot is taken before the locks are read. A transaction with a number below the end of the
# snapshot that may still write events holds a lock and is found here. All others have ended, and
# the next statement sees their events.
_HORIZON = """
with locks as materialized (select * from pg_locks where granted)
select least(pg_snapshot_xmax(snapshot)::text::bigint, (
    select min(number::text::bigint) from pg_snapshot_xip(snapshot) as number
    where number::xid in (
        select theirs.transactionid
        from locks as writing join locks as theirs using (virtualtransaction)
        where writing.locktype = 'relation' and writing.relation = 'events'::regclass
            and writing.database = (select oid from pg_database where datname = current_database())
            and writing.mode not in ('AccessShareLock', 'RowShareLock', 'ShareUpdateExclusiveLock')
            and theirs.locktype = 'transactionid'
    )
)) from pg_current_snapshot() as snapshot"""
_NUMBERS = """
select max(xid) as highest, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as following
from events"""
_FOLLOWERS = "select collection, key, body from documents where collection = any($1::text[])"
_LOWER = "update events set xid = xid - $1::bigint"
_MOVE = """
update documents set body = $3, version = version + 1, updated_at = clock_timestamp()
where collection = $1 and key = $2"""
_TIMEOUT_S = 600.0
_LOCK = "select pg_advisory_xact_lock(hashtextextended($1, 0))"


def page_sql(where: EventFilter, limit: int, cursor: str | None) -> tuple[str, list[Any]]:
    """The statement for a page and one more event, with its arguments.

    It returns the number and the id of the session, and the `EVENT` columns.
    """
    args: list[Any] = [limit + 1]
    conditions: list[str] = []

    def restrict(condition: str, *values: Any) -> None:
        places = range(len(args) + 1, len(args) + len(values) + 1)
        args.extend(values)
        conditions.append(condition.format(*(f"${place}" for place in places)))

    if where.types is not None:
        restrict("type = any({}::text[])", [to_column(type) for type in where.types])
        if AUDITED.issuperset(where.types):
            restrict(_INDEXED)
    if where.session_id is not None:
        restrict(f"events.session = {NUMBER}", to_column(where.session_id))
    if where.since_us is not None:
        restrict("at_us >= {}", where.since_us)
    if where.until_us is not None:
        restrict("at_us < {}", where.until_us)
    if cursor is not None:
        sign = "<" if where.newest_first else ">"
        restrict(
            f"(at_us, events.session, events.seq) {sign} ({{}}, {{}}, {{}})",
            *parse_event_cursor(cursor),
        )
    direction = "desc" if where.newest_first else "asc"
    return (
        f"select events.session, coalesce(sessions.id, ''), {COLUMNS}"
        " from events left join sessions on sessions.num = events.session"
        f" where {' and '.join(conditions) or 'true'}"
        f" order by at_us {direction}, events.session {direction}, events.seq {direction}"
        " limit $1",
        args,
    )


async def mend_feed(connection: Any, schema: str) -> None:
    """Lower the transaction numbers of all events if they come from another server.

    A dump that was restored on a new server has transaction numbers that this server has not
    reached: the feed would show no new event until then, and afterwards in the wrong order. Cursors
    in the documents of followers are lowered by the same amount, so each follower continues at the
    same event. Cursors that other programs keep become invalid.
    """
    if not await _excess(connection):
        return
    async with connection.transaction():
        await connection.execute(_LOCK, f"ekiden/feed/{schema}", timeout=_TIMEOUT_S)
        excess = await _excess(connection)
        if excess:
            await connection.execute(_LOWER, excess, timeout=_TIMEOUT_S)
            await _lower_cursors(connection, excess)


async def _excess(connection: Any) -> int:
    """The difference of the highest transaction number in events or cursors and the last number
    that this server assigned; 0 if it is not positive.

    Cursors count because their event may be the last one, and deleted.
    """
    # Cursors are read first: a follower that advances meanwhile does not get beyond `following`.
    numbers = [found.place[0] for found in await _stored_cursors(connection)]
    highest, following = await connection.fetchrow(_NUMBERS)
    if highest is not None:
        numbers.append(highest)
    return max(0, max(numbers, default=0) - int(following) + 1)


async def _lower_cursors(connection: Any, excess: int) -> None:
    for found in await _stored_cursors(connection):
        xid, session, seq = found.place
        body = {**found.body, FOLLOWERS[found.collection]: f"{xid - excess}.{session}.{seq}"}
        await connection.execute(_MOVE, found.collection, found.key, dumps(body))


class _StoredCursor(NamedTuple):
    """A follower's document, and the position in the feed that it names."""

    collection: str
    key: str
    """The key in its stored form."""
    body: dict[str, Any]
    place: tuple[int, int, int]


async def _stored_cursors(connection: Any) -> list[_StoredCursor]:
    found = []
    for collection, key, text in await connection.fetch(_FOLLOWERS, list(FOLLOWERS)):
        body = loads(text)
        cursor = body.get(FOLLOWERS[collection]) if isinstance(body, dict) else None
        # A follower at the beginning has no cursor; other text is left as it is.
        if isinstance(cursor, str):
            with suppress(UserError):
                found.append(_StoredCursor(collection, key, body, parse_place(cursor)))
    return found


class Feed(Role):
    """The feed of all events."""

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        check_limit(limit)
        place = _BEGINNING if after is None else parse_place(after)
        rows = await self._final_rows(_FEED, *place, limit)
        events = events_of([from_column(row[3]) for row in rows], [tuple(row)[4:] for row in rows])
        cursors = [
            f"{row['xid']}.{row['session']}.{event.seq}"
            for row, event in zip(rows, events, strict=True)
        ]
        return EventPage(
            events=events, cursors=cursors, next_cursor=cursors[-1] if cursors else after
        )

    async def feed_end(self) -> str:
        rows = await self._final_rows(_END)
        return "{xid}.{session}.{seq}".format(**rows[0]) if rows else "0.0.0"

    async def _final_rows(self, sql: str, *args: Any) -> list[Any]:
        """The rows below the horizon: no row can be added between them any more."""
        rows = await self._database.query(sql, None, *args, repeatable=True)
        # Without concurrent writers, the first query is enough.
        if all(row["is_final"] for row in rows):
            return rows
        horizon = await self._database.query(_HORIZON, repeatable=True)
        return await self._database.query(sql, horizon[0][0], *args, repeatable=True)


def parse_place(cursor: str) -> tuple[int, int, int]:
    """The transaction, session and event number that a cursor names. Raises `UserError` for other
    text."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise UserError(
            f"{cursor[:40]!r} is not a cursor of the feed: pass the `next_cursor` of a page, or "
            "the text of `feed_end`"
        )
    xid, session, seq = map(int, found.groups())
    return xid, session, seq


_PAGE = 5_000
"""Events are fetched in pages, so that a long history does not block the event loop."""

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


class PostgresJournal(Role):
    """The events and steps of a session."""

    _commit_groups: CommitGroups

    async def commit(self, claim: Claim, commit: Commit) -> None:
        handle = await self._handle(claim)
        fault_point("store.postgres.before_commit")
        topics = await store_commit(self._database, self._commit_groups, handle, claim, commit)
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
            # Not around the query: other tasks run meanwhile, and need the collector.
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
