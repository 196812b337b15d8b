"""The store as `SessionStore`."""

from __future__ import annotations

from typing import Any, get_args

from ekiden.core.errors import SessionExists, SessionNotFound
from ekiden.storage.base import NewSession, SessionFilter, SessionPage, SessionRow, SessionStatus
from ekiden.storage.postgres.role import FREE, Role
from ekiden.storage.postgres.rows import SESSION, head_start, session_row
from ekiden.storage.postgres.text import to_column, to_column_or_null
from ekiden.storage.priorities import check_priority
from ekiden.storage.values import check_session_id, json_text, parse_cursor

INSERT = (
    "insert into sessions (id, agent, status, user_id, meta, priority, created_at, updated_at, "
    "ready_at"
)
"""The beginning of an insert of `NEW`, and what the caller adds."""
NEW = f"$1, $2, $3, $4, $5, $6, now, now, now - {head_start('$6::smallint')}"
"""The `new_columns`, and the times that follow from `now`."""

_CREATE = f"""
{INSERT}) select {NEW} from clock_timestamp() as now
on conflict (id) do nothing returning num"""
_GET = f"select {SESSION} from sessions where id = $1"
_LOCK = f"select num from sessions where id = $1 and {FREE} for update"
_DELETE = """
with gone as (delete from sessions where num = $1),
    old_events as (delete from events where session = $1)
delete from steps where session = $1"""

_FILTERS = ("status", "agent", "user_id", "outcome")
_LARGEST = 2**63 - 1
_NEWEST = "order by num desc limit $1"


def new_columns(new: NewSession) -> tuple[Any, ...]:
    """What an insert stores of a new session; `UserError` for an empty id, a priority that is none,
    or a `meta` that is not JSON."""
    check_session_id(new.id)
    return (
        to_column(new.id),
        to_column(new.agent),
        new.status,
        to_column_or_null(new.user_id),
        json_text(new.meta, "`meta` of session {!r}", new.id),
        check_priority(new),
    )


class Sessions(Role):
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

        while not await self._database.transact(work):
            await self._explain_not_free(session_id)
        self._changes.changed()


def _page_sql(where: SessionFilter, limit: int, below: int) -> tuple[str, list[Any]]:
    """The statement for a page, and what it is given.

    An index has the newest of each agent and status: of an agent alone, the newest of each status
    are looked at.
    """
    args: list[Any] = [limit + 1, below]
    conditions = ["num < $2"]
    for column in _FILTERS:
        wanted = getattr(where, column)
        if wanted is not None:
            args.append(to_column(wanted))
            conditions.append(f"{column} = ${len(args)}")
    sql = f"select {SESSION} from sessions where {' and '.join(conditions)}{{}} {_NEWEST}"
    if where != SessionFilter(agent=where.agent) or where.agent is None:
        return sql.format(""), args
    each = [sql.format(f" and status = '{status}'") for status in get_args(SessionStatus)]
    return f"({') union all ('.join(each)}) {_NEWEST}", args
