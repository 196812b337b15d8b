"""Sessions and leases in PostgreSQL; the order of row locks, and waking sessions.

Two transactions that wake each other's sessions while they commit their own would deadlock. So all
transactions lock session rows before documents and messages, and several session rows in the order
of their numbers: a transaction that wakes other sessions calls `lock_sessions` first. The server
detects the remaining deadlocks, such as two transactions that put the same two keys in opposite
order, and `Database.run` retries one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple, get_args

from ekiden.core.errors import EkidenError, SessionExists, SessionNotFound
from ekiden.core.values import is_dead
from ekiden.storage.base import (
    Claim,
    NewSession,
    SessionFilter,
    SessionPage,
    SessionRow,
    SessionStatus,
)
from ekiden.storage.postgres.changes import FREE, Role, later_lapse, lease
from ekiden.storage.postgres.database import ConnectionLost, Database
from ekiden.storage.postgres.rows import (
    CLAIMED_SESSION,
    READY_NOW,
    SESSION,
    claim_of,
    claimed_row,
    from_column,
    head_start,
    session_row,
    to_column,
    to_column_or_null,
)
from ekiden.storage.records import USUAL_CONCLUSION, check_priority
from ekiden.storage.timers import DEAD_CHECK_S, MOST_CHECKED
from ekiden.storage.values import check_session_id, json_text, parse_cursor

INSERT = (
    "insert into sessions (id, agent, status, user_id, meta, priority, created_at, updated_at, "
    "ready_at"
)
"""The beginning of an insert; the caller adds further columns."""
NEW = f"$1, $2, $3, $4, $5, $6, now, now, now - {head_start('$6::smallint')}"
"""The values of these columns: `new_columns`, and times that are computed from `now`."""

_CREATE = f"""
{INSERT}) select {NEW} from clock_timestamp() as now
on conflict (id) do nothing returning num"""
_GET = f"select {SESSION} from sessions where id = $1"
_LOCK = f"select num from sessions where id = $1 and {FREE} for update"
_DELETE = """
with gone as (delete from sessions where num = $1),
    old_events as (delete from events where session = $1)
delete from steps where session = $1"""

_FILTERS = ("status", "agent", "user_id", "outcome", "conclusion")
_LARGEST = 2**63 - 1
_A_MOMENT_S = 0.005
_NEWEST = "order by num desc limit $1"
# `+ interval '0'` and `|| ''` keep the server from using the indexes of `ready_at` and `agent` for
# sessions with lapsed leases: it would read all ready sessions to find these few.
_TAKE_FIRST = f"""
with lapsed as materialized (
    select num, ready_at from sessions
    where status = 'ready' and owner is not null and lapses_at <= statement_timestamp()
        and lease_until <= clock_timestamp(){{and_lapsed}}
    order by ready_at + interval '0', num limit $3 for update skip locked
), free as materialized (
    select num, ready_at from sessions
    where status = 'ready' and owner is null{{and_free}}
    order by ready_at, num limit $3 for update skip locked
), next as (
    select num as found from (table lapsed union all table free) as either
    order by ready_at, num limit $3
), taken as (
    update sessions set epoch = epoch + 1, owner = $1,
        {lease("$2::float8")}
    from next where num = found returning {CLAIMED_SESSION}
)
select extract(epoch from least(
    (select min(lapses_at) from sessions
        where status = 'ready' and owner is not null and lapses_at > statement_timestamp()),
    (select min(lease_until) from sessions
        where status = 'ready' and owner is not null and lapses_at <= statement_timestamp()
            and lease_until > statement_timestamp())
) - clock_timestamp())::float8 as lapses_in_s, taken.*
from (select) as always left join taken on true"""
_TAKE_NEXT = _TAKE_FIRST.format(and_lapsed="", and_free="")
# The queue is read in its order only if a session of these agents exists. Otherwise a worker
# without work would read all sessions of other agents with each claim.
TAKE_NEXT_OF = _TAKE_FIRST.format(
    and_lapsed=" and agent || '' = any($4::text[])",
    and_free=""" and agent = any($4) and exists (
        select from unnest($4) as wanted (name) cross join lateral (
            select from sessions where status = 'ready' and owner is null and agent = name
            order by ready_at limit 1
        ) as first)""",
)
_HELD = f"""
select distinct owner from (
    select owner from sessions where status = 'ready' and owner is not null limit {MOST_CHECKED}
) as held"""
_EXPIRE_ALL = """
update sessions set lease_until = '-infinity', lapses_at = '-infinity'
where status = 'ready' and owner is not null and owner = any($1::text[])"""
RELEASE = f"""
update sessions set owner = null, lease_until = null, lapses_at = '-infinity',
    ready_at = case when status = 'ready' then {READY_NOW} else ready_at end
where num = $1 and epoch = $2 and owner = $3"""
"""The arguments are the number, epoch and owner of a claim."""
_TAKE = f"""
update sessions set epoch = epoch + 1, owner = $2,
    {lease("$3::float8")}
where id = $1 and {FREE} returning {CLAIMED_SESSION}"""
_TAKE_OR_CREATE = f"""
with made as (
    {INSERT}, epoch, owner, lease_until, lapses_at)
    select {NEW}, 1, $7, ending, ending
    from clock_timestamp() as now, lateral (
        select now + $8::float8 * interval '1 second' as ending) as its
    on conflict (id) do nothing returning {CLAIMED_SESSION}
), taken as (
    update sessions set epoch = epoch + 1, owner = $7,
        {lease("$8::float8")}
    where id = $1 and {FREE} and not exists (select from made) returning {CLAIMED_SESSION}
)
select true as is_new, * from made union all select false, * from taken"""
# Rows are locked in the order of their numbers; the head of this file says why.
_RENEW = f"""
with held as materialized (
    select from sessions where num = any($1::bigint[]) order by num for no key update
)
update sessions set lease_until = clock_timestamp() + lease_s * interval '1 second',
    lapses_at = {later_lapse("lease_s")}
from unnest($1, $2::bigint[], $3::text[], $4::float8[])
    as claim (their_num, their_epoch, their_owner, lease_s)
where num = their_num and epoch = their_epoch and owner = their_owner
    and lease_until > clock_timestamp() and (select count(*) from held) > 0
returning num, epoch, owner"""


def new_columns(new: NewSession) -> tuple[Any, ...]:
    """The columns of a new session. Raises `UserError` for an empty id, an invalid priority, or
    `meta` that is not JSON."""
    check_session_id(new.id)
    return (
        to_column(new.id),
        to_column(new.agent),
        new.status,
        to_column_or_null(new.user_id),
        json_text(new.meta, "`meta` of session {!r}", new.id),
        check_priority(new),
    )


class PostgresSessions(Role):
    """Sessions as rows."""

    async def create(self, new: NewSession) -> None:
        if not await self._database.query(_CREATE, *new_columns(new)):
            raise SessionExists(new.id)
        self._changes.changed()

    async def get(self, session_id: str) -> SessionRow:
        found = await self._database.query(_GET, to_column(session_id), repeatable=True)
        if not found:
            raise SessionNotFound(session_id)
        return session_row(found[0])

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        sql, args = _page_sql(where, limit, _LARGEST if cursor is None else parse_cursor(cursor))
        found = await self._database.query(sql, *args, repeatable=True)
        page = found[:limit]
        return SessionPage(
            sessions=[session_row(record) for record in page],
            next_cursor=str(page[-1]["num"]) if page and len(found) > limit else None,
        )

    async def delete(self, session_id: str) -> None:
        async def work(connection: Any) -> bool:
            # The lock comes first, in a statement of its own: the next one then sees, and
            # removes, what the last owner committed while we waited for it.
            num = await connection.fetchval(_LOCK, to_column(session_id))
            if num is not None:
                await connection.execute(_DELETE, num)
            return num is not None

        # Returns to the loop only if the session was freed between the two looks.
        while not await self._database.transact(work):
            await self._explain_not_free(session_id)
        self._changes.changed()


def _page_sql(where: SessionFilter, limit: int, below: int) -> tuple[str, list[Any]]:
    """The statement for a page, and its arguments.

    The status is written into the statement, so that the server knows how rare it is. With a
    parameter, it would read all sessions, newest first, to find the few ready ones. An index has
    the sessions of each agent and status in order: for an agent without a status, the newest of
    each status are merged. The row comparison is the form for which the server uses this index.
    """
    args: list[Any] = [limit + 1, below]
    statuses = get_args(SessionStatus)
    alone = SessionFilter(agent=where.agent, status=where.status)
    if where.agent is not None and where == alone and where.status in (None, *statuses):
        args.append(to_column(where.agent))
        each = [
            f"select {SESSION} from sessions where (agent, status, num) < ($3, '{status}', $2)"
            f" and (agent, status) >= ($3, '{status}')"
            " order by agent desc, status desc, num desc limit $1"
            for status in statuses
            if where.status in (None, status)
        ]
        return each[0] if len(each) == 1 else f"({') union all ('.join(each)}) {_NEWEST}", args
    conditions = ["num < $2"]
    for column in _FILTERS:
        wanted = getattr(where, column)
        if column == "status" and wanted in statuses:
            conditions.append(f"status = '{wanted}'")
        elif wanted is not None:
            args.append(to_column(wanted))
            conditions.append(f"{column} = ${len(args)}")
            if column == "conclusion" and wanted != USUAL_CONCLUSION:
                conditions.append(f"conclusion <> '{USUAL_CONCLUSION}'")  # For the index.
    return f"select {SESSION} from sessions where {' and '.join(conditions)} {_NEWEST}", args


class ClaimRequest(NamedTuple):
    """The arguments of `claim_next`; text in its stored form."""

    owner: str
    lease_s: float
    agents: tuple[str, ...] | None


class ClaimQueue:
    """The calls of `claim_next` of one process: concurrent calls become one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[ClaimRequest, list[asyncio.Future[Any]]] = {}
        """The callers of this turn of the event loop."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._lapse_at = inf
        """The loop time before which no lease expires, according to the last claim."""
        self._next_dead_check = 0.0
        """The loop time of the next search for dead owners."""

    def seconds_to_lapse(self) -> float:
        """The seconds until the next lease may expire."""
        return max(self._lapse_at - asyncio.get_running_loop().time(), 0.0)

    async def free_of_dead(self) -> bool:
        """End the leases of dead owners on ready sessions, and return whether there were any.

        Returns false at once if the last search was less than a second ago.
        """
        now = asyncio.get_running_loop().time()
        if now < self._next_dead_check:
            return False
        self._next_dead_check = now + DEAD_CHECK_S
        held = await self._database.query(_HELD, repeatable=True)
        dead = [owner for (owner,) in held if is_dead(from_column(owner))]
        if dead:
            await self._database.query(_EXPIRE_ALL, dead, repeatable=True)
        return bool(dead)

    async def next(self, request: ClaimRequest) -> Any:
        """The `CLAIMED_SESSION` columns of the claimed session, or `None`.

        If the caller is cancelled, the session is released.
        """
        loop = self._database.bind_loop()
        if self._loop is not loop:
            # The store is used from a new event loop; futures of the old one can never be answered.
            self._loop, self._waiting = loop, {}
        if request not in self._waiting:
            self._waiting[request] = []
            # All claims that begin in this turn of the loop become one statement.
            loop.call_soon(self._send, request)
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting[request].append(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                # The answer came together with the cancellation: the session would stay claimed.
                self._start(self._release(request, [answer.result()]))
            raise

    def _send(self, request: ClaimRequest) -> None:
        waiting = [each for each in self._waiting.pop(request, ()) if not each.done()]
        if waiting:
            self._start(self._take(request, waiting))

    async def _take(self, request: ClaimRequest, waiting: Sequence[asyncio.Future[Any]]) -> None:
        # The error for the callers if this task is cancelled, so that none waits for ever.
        failure: EkidenError | None = ConnectionLost("the claim was broken off")
        found: list[Any] = []
        try:
            found = await self._query(request, len(waiting))
            failure = None
        except EkidenError as exc:
            failure = exc
        finally:
            for each in waiting:
                if each.done():
                    continue
                if failure is None:
                    each.set_result(found.pop() if found else None)
                else:
                    each.set_exception(failure)
        await self._release(request, found)

    async def _query(self, request: ClaimRequest, count: int) -> list[Any]:
        args = (request.owner, request.lease_s, count)
        if request.agents is None:
            found = await self._database.query(_TAKE_NEXT, *args)
        else:
            found = await self._database.query(TAKE_NEXT_OF, *args, request.agents)
        lapses_in_s = found[0]["lapses_in_s"]
        now = asyncio.get_running_loop().time()
        self._lapse_at = inf if lapses_in_s is None else now + lapses_in_s + _A_MOMENT_S
        return [row for row in found if row["num"] is not None]

    async def _release(self, request: ClaimRequest, found: Sequence[Any]) -> None:
        """Release the sessions of cancelled callers. If that fails, their leases expire."""
        with suppress(EkidenError):
            for row in found:
                if row is not None:
                    args = (row["num"], row["epoch"], request.owner)
                    await self._database.query(RELEASE, *args, repeatable=True)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Leases(Role):
    """Leases of sessions: only the owner of a lease may write to the session. All times come from
    the clock of the database server."""

    _claim_queue: ClaimQueue

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        taker = to_column(owner)
        while True:
            if create is None:
                found = await self._database.query(_TAKE, to_column(session_id), taker, lease_s)
            else:
                args = (*new_columns(create), taker, lease_s)
                found = await self._database.query(_TAKE_OR_CREATE, *args)
            if found:
                return claim_of(found[0], owner=owner, lease_s=lease_s), claimed_row(found[0])
            # Raises if another process has the session; returns if it was freed meanwhile: then try
            # again.
            await self._explain_not_free(session_id, may_be_missing=create is not None)

    async def claim_next(
        self, *, owner: str, lease_s: float, agents: Collection[str] | None = None
    ) -> tuple[Claim, SessionRow] | None:
        request = ClaimRequest(
            owner=to_column(owner),
            lease_s=lease_s,
            agents=None if agents is None else tuple(map(to_column, agents)),
        )
        found = await self._claim_queue.next(request)
        # Only a worker without work looks for dead owners: it costs a query.
        if found is None and await self._claim_queue.free_of_dead():
            found = await self._claim_queue.next(request)
        if found is None:
            return None
        return claim_of(found, owner=owner, lease_s=lease_s), claimed_row(found)

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        if not claims:
            return []
        nums = [(await self._handle(claim)).num for claim in claims]
        owned = [
            (num, claim.epoch, to_column(claim.owner))
            for num, claim in zip(nums, claims, strict=True)
        ]
        columns = [*map(list, zip(*owned, strict=True)), [claim.lease_s for claim in claims]]
        renewed = await self._database.query(_RENEW, *columns, repeatable=True)
        kept = {tuple(row) for row in renewed}
        return [claim for row, claim in zip(owned, claims, strict=True) if row not in kept]

    async def release(self, claim: Claim) -> None:
        num = (await self._handle(claim)).num
        args = (num, claim.epoch, to_column(claim.owner))
        await self._database.query(RELEASE, *args, repeatable=True)
        self._changes.changed()

    async def wait_for_change(
        self, timeout_s: float, *, about: Collection[str] | None = None
    ) -> None:
        await self._changes.wait(timeout_s, about)

    async def wait_for_ready(
        self, agents: Collection[str], timeout_s: float, *, has_room: Callable[[], bool]
    ) -> None:
        longest_s = min(timeout_s, self._claim_queue.seconds_to_lapse())
        await self._changes.wait_ready(agents, longest_s, has_room)


WRITES_EVENTS = "writer as (delete from events where false)"
"""Deletes nothing, but takes a writer's lock on the table before the transaction has a number. So
`feed` knows which transactions may still add events with a lower number. The first statement of a
transaction that adds events must contain this, or write to the table itself."""

_WAITS = "messages join sessions as woken on woken.id = session_id where key"
_LOCK_SESSIONS = f"""
with {WRITES_EVENTS}
select from sessions where num in (
    select $1::bigint
    union all select num from sessions where id = any($2::text[])
    union all select woken.num from {_WAITS} = any($3::text[])
) order by num for no key update"""
# The usual case. Without lists, whose lengths are unknown, one plan serves every call.
_LOCK_FOR_ONE = f"""
with {WRITES_EVENTS}
select from sessions where num in ($1, (select woken.num from {_WAITS} = $2))
order by num for no key update"""


def wake_sql(source: str) -> str:
    """An update that wakes the sessions in the column `session_id` of `source`, each as often as it
    occurs."""
    return f"""
    update sessions set wakes = wakes + often,
        status = case when status = 'waiting' then 'ready' else status end,
        ready_at = case when status = 'waiting' then {READY_NOW} else ready_at end,
        updated_at = case when status = 'waiting' then clock_timestamp() else updated_at end
    from (select session_id, count(*) as often from {source} group by session_id) as wake
    where sessions.id = wake.session_id"""


_WAKE = wake_sql("unnest($1::text[]) as told (session_id)")


async def lock_sessions(
    connection: Any, *, num: int | None, ids: Sequence[str], keys: Sequence[str]
) -> None:
    """Lock the session `num`, these sessions, and the sessions that wait for these messages."""
    if not ids and len(keys) == 1:
        await connection.execute(_LOCK_FOR_ONE, num, to_column(keys[0]))
    else:
        stored = [[to_column(each) for each in names] for names in (ids, keys)]
        await connection.execute(_LOCK_SESSIONS, num, *stored)


async def wake_sessions(connection: Any, ids: Sequence[str]) -> None:
    """Wake these sessions; ids of missing sessions are ignored."""
    await connection.execute(_WAKE, [to_column(each) for each in ids])
