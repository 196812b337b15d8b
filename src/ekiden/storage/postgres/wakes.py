"""Waking sessions, and the order in which rows are locked.

Two transactions that wake each other's sessions while they commit their own would wait for each
other for ever. So all lock the rows of sessions before those of documents and messages, and those
of several sessions in the order of their numbers: whoever is going to wake others calls
`lock_sessions` before anything else. What is left, say two who put the same two keys in opposite
order, the server finds, and `Database.run` does one of them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.storage.postgres.rows import READY_NOW, to_column

WRITES_EVENTS = "writer as (delete from events where false)"
"""Deletes nothing, but locks the table as a writer does, before the transaction has a number: by
that `feed` knows those who may still add events with a number that is below others'. The first
statement of a transaction that adds events has this or writes to the table itself."""

_WAITS = "messages join sessions as woken on woken.id = session_id where key"
_LOCK = f"""
with {WRITES_EVENTS}
select from sessions where num in (
    select $1::bigint
    union all select num from sessions where id = any($2::text[])
    union all select woken.num from {_WAITS} = any($3::text[])
) order by num for no key update"""
# The usual case, for which the server need not make a new plan each time, since no list is long.
_LOCK_FOR_ONE = f"""
with {WRITES_EVENTS}
select from sessions where num in ($1, (select woken.num from {_WAITS} = $2))
order by num for no key update"""


def wake_sql(source: str) -> str:
    """An update that wakes the sessions in the column `session_id` of `source`, each as often as
    it is there."""
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
    """Lock the session numbered `num`, these, and those that wait for the messages so named."""
    if not ids and len(keys) == 1:
        await connection.execute(_LOCK_FOR_ONE, num, to_column(keys[0]))
    else:
        stored = [[to_column(each) for each in names] for names in (ids, keys)]
        await connection.execute(_LOCK, num, *stored)


async def wake_sessions(connection: Any, ids: Sequence[str]) -> None:
    """Wake them; one that does not exist is left out."""
    await connection.execute(_WAKE, [to_column(each) for each in ids])
