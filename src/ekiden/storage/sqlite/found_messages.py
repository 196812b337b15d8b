"""Looking at messages in any state."""

from __future__ import annotations

from typing import Any

import apsw

from ekiden.core.jsonio import dumps, loads
from ekiden.storage.base import MessageFilter, StoredMessage
from ekiden.storage.sqlite.connection import query
from ekiden.storage.values import check_limit

_COLUMNS = (
    "id, queue, key, body, priority, attempts, owner, state, waiter, session_id, answer,"
    " created_us, settled_us"
)


def find_messages(
    db: apsw.Connection, where: MessageFilter, after: int, limit: int
) -> list[StoredMessage]:
    """One page by id."""
    check_limit(limit, "messages")
    sql, values = page_sql(where, after, limit)
    return [_message(row) for row in query(db, sql, values)]


def page_sql(where: MessageFilter, after: int, limit: int) -> tuple[str, list[str | int]]:
    """The statement for a page, with its values.

    `+id` keeps SQLite from going through the whole table in the order of ids where there is an
    index of what is asked for.
    """
    conditions = ["+id > ?"]
    values: list[str | int] = [after]
    for column, chosen in (("key", where.keys), ("waiter", where.waiters)):
        if chosen is not None:
            conditions.append(f"{column} IN (SELECT value FROM json_each(?))")
            values.append(dumps(list(chosen)))
    for column, value in (("queue", where.queue), ("session_id", where.session_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    if where.waited_for:
        conditions.append("waiter IS NOT NULL")
    only_open = where.states is not None and set(where.states) == {"open"}
    if only_open:
        conditions.append("state = 'open'")
    elif where.states is not None:
        conditions.append("state IN (SELECT value FROM json_each(?))")
        values.append(dumps(list(where.states)))
    has_index = (
        where.keys is not None
        or where.session_id is not None
        or (only_open and (where.waiters is not None or where.waited_for or where.queue))
    )
    if not has_index:
        conditions[0] = "id > ?"
    return (
        f"SELECT {_COLUMNS} FROM messages WHERE {' AND '.join(conditions)}"
        f" ORDER BY {'+id' if has_index else 'id'} LIMIT ?",
        [*values, limit],
    )


def _message(row: tuple[Any, ...]) -> StoredMessage:
    (
        message_id,
        queue,
        key,
        body,
        priority,
        attempts,
        owner,
        state,
        waiter,
        session_id,
        answer,
        created_us,
        settled_us,
    ) = row
    return StoredMessage(
        id=message_id,
        queue=queue,
        key=key,
        body=loads(body),
        priority=priority,
        attempts=attempts,
        owner=owner,
        state=state,
        waiter=waiter,
        session_id=session_id,
        answer=None if answer is None else loads(answer),
        created_at_us=created_us,
        settled_at_us=settled_us,
    )
