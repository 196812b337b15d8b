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


def is_quick(where: MessageFilter) -> bool:
    """Whether few messages have to be looked at."""
    return _lead(where) in ("key", "session_id", "waiter")


def page_sql(where: MessageFilter, after: int, limit: int) -> tuple[str, list[str | int]]:
    """The statement for a page, with its values.

    A `+` keeps SQLite from using a column to find rows: there are no statistics by which it would
    know that a key or a session has few messages and a queue or the table many. With one value
    of the column that leads, the index has the messages in order; sorting takes longer than
    finding them.
    """
    lead = _lead(where)

    def column(name: str) -> str:
        return name if name == lead else f"+{name}"

    conditions: list[str] = []
    values: list[str | int] = []
    choices = (("key", where.keys), ("waiter", where.waiters), ("queue", where.queues))
    for name, chosen in choices:
        if chosen is not None and len(chosen) == 1:
            conditions.append(f"{column(name)} = ?")
            values += chosen
        elif chosen is not None:
            conditions.append(f"{column(name)} IN (SELECT value FROM json_each(?))")
            values.append(dumps(list(chosen)))
    for name, value in (("queue", where.queue), ("session_id", where.session_id)):
        if value is not None:
            conditions.append(f"{column(name)} = ?")
            values.append(value)
    if where.waited_for:
        conditions.append(f"{column('waiter')} IS NOT NULL")
    if _only_open(where):
        conditions.append("state = 'open'")
    elif where.states is not None:
        conditions.append("state IN (SELECT value FROM json_each(?))")
        values.append(dumps(list(where.states)))
    place = "id" if _is_in_order(where, lead) else "+id"
    return (
        f"SELECT {_COLUMNS} FROM messages WHERE {' AND '.join([*conditions, f'{place} > ?'])}"
        f" ORDER BY {place} LIMIT {limit:d}",
        [*values, after],
    )


def _is_in_order(where: MessageFilter, lead: str) -> bool:
    """Whether the messages come in the order of ids by themselves."""
    match lead:
        case "key":
            return where.keys is not None and len(where.keys) == 1
        case "waiter":
            return where.waiters is not None and len(where.waiters) == 1
        case _:
            return lead != "queue"


def _only_open(where: MessageFilter) -> bool:
    return where.states is not None and set(where.states) == {"open"}


def _lead(where: MessageFilter) -> str:
    """The column by which the fewest messages are looked at."""
    only_open = _only_open(where)
    if where.keys is not None:
        return "key"
    if where.session_id is not None:
        return "session_id"
    if only_open and (where.waiters is not None or where.waited_for):
        return "waiter"
    in_queues = where.queue is not None or where.queues is not None
    return "queue" if only_open and in_queues else "id"


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
