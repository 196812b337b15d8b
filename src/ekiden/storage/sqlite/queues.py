"""Queues in SQLite: putting, taking, acknowledging and finding messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import apsw

from ekiden.core.errors import QueueFull
from ekiden.core.values import dumps, loads
from ekiden.storage.base import MessageFilter, PutReceipt, QueueMessage, QueuePut, StoredMessage
from ekiden.storage.sqlite.connection import TransactionTime, query
from ekiden.storage.sqlite.rows import Row, chunks, padded, values_sql
from ekiden.storage.sqlite.settle import wake_sessions
from ekiden.storage.values import check_limit, json_text

_WIDTH = 12
"""The number of columns of an insert: the id, and those of `PreparedPut.row`."""
_EXPIRED = "SELECT id FROM messages WHERE state = 'open' AND expires_ms <= ? AND due_ms <= ?"
_COLUMNS = (
    "id, queue, key, body, priority, attempts, owner, state, waiter, session_id, answer,"
    " created_us, settled_us"
)


class PreparedPut(NamedTuple):
    """A message with its body as JSON text, made in the event loop's thread."""

    queue: str
    bound: int | None
    row: Row
    """Queue, priority, milliseconds until it is due, attempts, owner, key for duplicates, body,
    key, waiter, session, milliseconds until it expires."""

    @property
    def key(self) -> str | None:
        return cast("str | None", self.row[7])


def prepare_puts(puts: Sequence[QueuePut]) -> list[PreparedPut]:
    """The messages as rows. Raises `UserError` for bodies that are not JSON."""
    return [
        PreparedPut(
            put.queue,
            put.bound,
            (
                put.queue,
                put.priority,
                int((put.delay_s if put.taken_by is None else put.lease_s) * 1000),
                0 if put.taken_by is None else 1,
                put.taken_by,
                put.dedup_key,
                json_text(put.body, "a message for queue {!r}", put.queue),
                put.key,
                put.waiter,
                put.session_id,
                None if put.ttl_s is None else int(put.ttl_s * 1000),
            ),
        )
        for put in puts
    ]


def put_messages(
    db: apsw.Connection, groups: Sequence[Sequence[PreparedPut]], now: TransactionTime
) -> list[list[PutReceipt] | QueueFull]:
    """Put the messages of several callers. For each caller, returns the receipts of all messages,
    or the reason why none was stored.

    If no bound can be reached, a few statements store the messages of all callers.
    """
    if _have_room(db, groups):
        return _put_all(db, groups, now)
    # Expired messages take up room until they are settled: settle them before a new one is refused.
    if has_expired(db, now.ms):
        expire_messages(db, now)
    results: list[list[PutReceipt] | QueueFull] = []
    for group in groups:
        refusal = _refusal(db, group)
        if refusal is None:
            results += _put_all(db, [group], now)
        else:
            results.append(refusal)
    return results


def take_messages(
    db: apsw.Connection,
    queue: str,
    *,
    owner: str,
    lease_ms: int,
    limit: int,
    oldest_first: bool,
    now: TransactionTime,
) -> list[QueueMessage]:
    """Lease the next due messages to `owner`; expired ones that come up are settled."""
    order = "id" if oldest_first else "priority DESC, id"
    taken: list[QueueMessage] = []
    while len(taken) < limit:
        found = query(
            db,
            "SELECT id, expires_ms <= ?2 FROM messages"
            " WHERE queue = ?1 AND state = 'open' AND due_ms <= ?2"
            f" ORDER BY {order} LIMIT {limit - len(taken):d}",
            (queue, now.ms),
        )
        ids = [message_id for message_id, is_expired in found if not is_expired]
        if ids:
            taken += _lease(db, queue, ids, owner, now.ms + lease_ms)
        # Expired messages used up places of the page: look again for the rest of the limit.
        if len(ids) == len(found):
            break
        _expire(db, [message_id for message_id, is_expired in found if is_expired], now)
    return taken


def ack_message(db: apsw.Connection, message: QueueMessage) -> bool:
    """Remove an open message if this is its last delivery."""
    db.execute(
        # `attempts` names the delivery: if the lease ended and the same owner took the message
        # again, an acknowledgement of the first delivery must not remove the second.
        "DELETE FROM messages WHERE id = ? AND owner = ? AND attempts = ? AND state = 'open'",
        (message.id, message.owner, message.attempts),
    )
    return db.changes() == 1


def release_message(db: apsw.Connection, message: QueueMessage, delay_ms: int, now_ms: int) -> bool:
    """Put an open message back if this is its last delivery."""
    db.execute(
        "UPDATE messages SET owner = NULL, due_ms = ?"
        " WHERE id = ? AND owner = ? AND attempts = ? AND state = 'open'",
        (now_ms + delay_ms, message.id, message.owner, message.attempts),
    )
    return db.changes() == 1


def has_expired(db: apsw.Connection, now_ms: int) -> bool:
    """Whether there are expired open messages without a lease."""
    return bool(query(db, f"{_EXPIRED} LIMIT 1", (now_ms, now_ms)))


def expire_messages(db: apsw.Connection, now: TransactionTime) -> None:
    """Settle the expired messages of all queues."""
    _expire(db, [message_id for (message_id,) in query(db, _EXPIRED, (now.ms, now.ms))], now)


def read_depth(db: apsw.Connection, queue: str) -> int:
    """The number of open messages in the queue."""
    ((count,),) = query(
        db, "SELECT count(*) FROM messages WHERE queue = ? AND state = 'open'", (queue,)
    )
    return int(count)


def _put_all(
    db: apsw.Connection, groups: Sequence[Sequence[PreparedPut]], now: TransactionTime
) -> list[list[PutReceipt] | QueueFull]:
    """Insert the messages, except duplicates; returns the receipts of each group."""
    puts = [put for group in groups for put in group]
    # The ids are given here instead of by SQLite, so that the id of each message in a statement of
    # many rows is known. No other writer can be between, since this is inside the write
    # transaction.
    found = query(db, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
    first = (found[0][0] if found else 0) + 1
    inserted, number = 0, first
    for chunk in chunks(puts):
        size = padded(len(chunk))
        values: list[Any] = [now.ms, now.ms, now.us]
        for put in chunk:
            values.append(number)
            values += put.row
            number += 1
        # Rows of nulls fill the statement up to its size; `column1 IS NOT NULL` leaves them out.
        values += [None] * ((size - len(chunk)) * _WIDTH)
        db.execute(_put_sql(size), values)
        inserted += db.changes()
    if inserted == len(puts):
        receipts = [PutReceipt(id=at, is_new=True) for at in range(first, number)]
    else:
        receipts = _receipts(db, puts, first)
    # The usual case, without copying.
    if len(groups) == 1:
        return [receipts]
    remaining = iter(receipts)
    return [[next(remaining) for _ in group] for group in groups]


@cache
def _put_sql(size: int) -> str:
    insert = (
        "INSERT INTO messages (id, queue, priority, due_ms, attempts, owner, dedup_key, body, key,"
        " waiter, session_id, expires_ms, created_us)"
    )
    if size == 1:  # The same values in the same order; a table of one row would cost a quarter.
        return (
            f"{insert} VALUES (?4, ?5, ?6, ?7 + ?1, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 + ?2, ?3)"
            " ON CONFLICT DO NOTHING"
        )
    return f"""
        {insert}
        SELECT column1, column2, column3, column4 + ?, column5, column6, column7, column8,
            column9, column10, column11, column12 + ?, ?
        FROM ({values_sql(size, _WIDTH)}) WHERE column1 IS NOT NULL
        ON CONFLICT DO NOTHING
    """


def _receipts(db: apsw.Connection, puts: Sequence[PreparedPut], first: int) -> list[PutReceipt]:
    """The receipts of messages with ids from `first`, some of which were dropped as duplicates."""
    new = {row[0] for row in query(db, "SELECT id FROM messages WHERE id >= ?", (first,))}
    receipts = []
    for number, put in enumerate(puts, start=first):
        found = [(number,)]
        if number not in new:
            found = query(db, "SELECT id FROM messages WHERE key = ?", (put.key,)) or [(0,)]
        receipts.append(PutReceipt(id=found[0][0], is_new=number in new))
    return receipts


def _have_room(db: apsw.Connection, groups: Sequence[Sequence[PreparedPut]]) -> bool:
    """Whether no queue can exceed its bound, even if no message is dropped as a duplicate."""
    bounds: dict[str, int] = {}
    added: dict[str, int] = {}
    for group in groups:
        for put in group:
            added[put.queue] = added.get(put.queue, 0) + 1
            if put.bound is not None:
                bounds[put.queue] = min(put.bound, bounds.get(put.queue, put.bound))
    return all(
        _open_up_to(db, queue, bound) + added[queue] <= bound for queue, bound in bounds.items()
    )


def _refusal(db: apsw.Connection, puts: Sequence[PreparedPut]) -> QueueFull | None:
    """The error if these messages exceed a bound; duplicates, which are dropped, do not count."""
    added: Counter[str] = Counter()
    counted: dict[tuple[str, int], int] = {}
    keys: set[str | None] = set()
    dedup_keys: set[tuple[str, str]] = set()
    for put in puts:
        key, dedup_key = put.key, put.row[5]
        if key is not None and (key in keys or _has(db, "key = ?", key)):
            continue
        if dedup_key is not None:
            at = (put.queue, dedup_key)
            if at in dedup_keys or _has(db, "queue = ? AND dedup_key = ?", *at):
                continue
            dedup_keys.add(at)
        if put.bound is not None:
            room = (put.queue, put.bound)
            if room not in counted:
                counted[room] = _open_up_to(db, *room)
            if counted[room] + added[put.queue] >= put.bound:
                return QueueFull(*room)
        added[put.queue] += 1
        keys.add(key)
    return None


def _open_up_to(db: apsw.Connection, queue: str, most: int) -> int:
    """The number of open messages in the queue, at most `most`."""
    ((count,),) = query(
        db,
        "SELECT count(*) FROM"
        f" (SELECT 1 FROM messages WHERE queue = ? AND state = 'open' LIMIT {max(most, 0):d})",
        (queue,),
    )
    return int(count)


def _has(db: apsw.Connection, condition: str, *values: str) -> bool:
    return bool(query(db, f"SELECT 1 FROM messages WHERE {condition}", values))


def _lease(
    db: apsw.Connection, queue: str, ids: Sequence[int], owner: str, until_ms: int
) -> list[QueueMessage]:
    """Lease these messages to `owner`; returns them in this order."""
    rows = query(
        db,
        "UPDATE messages SET due_ms = ?, owner = ?, attempts = attempts + 1"
        " WHERE id IN (SELECT value FROM json_each(?))"
        " RETURNING id, body, priority, attempts, key",
        (until_ms, owner, dumps(ids)),
    )
    leased = {
        message_id: QueueMessage(
            id=message_id,
            queue=queue,
            body=loads(body),
            priority=priority,
            attempts=attempts,
            owner=owner,
            key=key,
        )
        for message_id, body, priority, attempts, key in rows
    }
    return [leased[message_id] for message_id in ids]


def _expire(db: apsw.Connection, ids: Sequence[int], now: TransactionTime) -> None:
    woken = query(
        db,
        "UPDATE messages SET state = 'expired', settled_us = ?, dedup_key = NULL"
        " WHERE id IN (SELECT value FROM json_each(?)) RETURNING session_id",
        (now.us, dumps(ids)),
    )
    wake_sessions(db, [session_id for (session_id,) in woken if session_id is not None], now)


def find_messages(
    db: apsw.Connection, where: MessageFilter, after: int, limit: int
) -> list[StoredMessage]:
    """One page of messages, ordered by id."""
    check_limit(limit, "messages")
    sql, values = page_sql(where, after, limit)
    return [_message(row) for row in query(db, sql, values)]


def is_quick(where: MessageFilter) -> bool:
    """Whether an index leads to few messages."""
    return _indexed_column(where) in ("key", "session_id", "waiter")


def page_sql(where: MessageFilter, after: int, limit: int) -> tuple[str, list[str | int]]:
    """The statement for a page, with its values.

    A `+` keeps SQLite from using the index of a column: without statistics, it does not know that
    a key or a session has few messages, and a queue or the table many. With one value of the
    indexed column, the index returns the messages in order; sorting takes longer than finding them.
    """
    indexed = _indexed_column(where)

    def column(name: str) -> str:
        return name if name == indexed else f"+{name}"

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
    number = "id" if _is_in_order(where, indexed) else "+id"
    return (
        f"SELECT {_COLUMNS} FROM messages WHERE {' AND '.join([*conditions, f'{number} > ?'])}"
        f" ORDER BY {number} LIMIT {limit:d}",
        [*values, after],
    )


def _is_in_order(where: MessageFilter, indexed: str) -> bool:
    """Whether the index returns the messages in the order of ids."""
    match indexed:
        case "key":
            return where.keys is not None and len(where.keys) == 1
        case "waiter":
            return where.waiters is not None and len(where.waiters) == 1
        case _:
            return indexed != "queue"


def _only_open(where: MessageFilter) -> bool:
    return where.states is not None and set(where.states) == {"open"}


def _indexed_column(where: MessageFilter) -> str:
    """The column whose index leads to the fewest messages."""
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
