"""Queues: SQL for putting, taking and acknowledging messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from ekiden.core.errors import QueueFull
from ekiden.core.jsonio import loads
from ekiden.storage.base import QueueMessage, QueuePut
from ekiden.storage.sqlite.connection import query
from ekiden.storage.values import json_text


class PreparedMessage(NamedTuple):
    """A message with its body as JSON text."""

    queue: str
    priority: int
    delay_ms: int
    dedup_key: str | None
    bound: int | None
    body: str


def prepare_messages(puts: Sequence[QueuePut]) -> Sequence[PreparedMessage]:
    """The messages as rows; `UserError` for what is not JSON."""
    return [
        PreparedMessage(
            put.queue,
            put.priority,
            int(put.delay_s * 1000),
            put.dedup_key,
            put.bound,
            json_text(put.body, "a message for queue {!r}", put.queue),
        )
        for put in puts
    ]


def put_messages(db: apsw.Connection, messages: Sequence[PreparedMessage], now_ms: int) -> None:
    """Put them one after the other; `QueueFull` may come after some were put."""
    for message in messages:
        if message.bound is not None and _is_full(db, message, message.bound):
            raise QueueFull(message.queue, message.bound)
        db.execute(
            "INSERT INTO messages (queue, priority, due_ms, dedup_key, body)"
            " VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING",
            (
                message.queue,
                message.priority,
                now_ms + message.delay_ms,
                message.dedup_key,
                message.body,
            ),
        )


def take_messages(
    db: apsw.Connection, queue: str, owner: str, lease_ms: int, limit: int, now_ms: int
) -> list[QueueMessage]:
    """The next ones that are due, leased to `owner`."""
    rows = query(
        db,
        "UPDATE messages SET due_ms = ?, owner = ?, attempts = attempts + 1 WHERE id IN"
        " (SELECT id FROM messages WHERE queue = ? AND due_ms <= ?"
        " ORDER BY priority DESC, id LIMIT ?)"
        " RETURNING id, body, priority, attempts",
        (now_ms + lease_ms, owner, queue, now_ms, limit),
    )
    rows.sort(key=lambda row: (-row[2], row[0]))
    return [
        QueueMessage(
            id=message_id,
            queue=queue,
            body=loads(body),
            priority=priority,
            attempts=attempts,
            owner=owner,
        )
        for message_id, body, priority, attempts in rows
    ]


def ack_message(db: apsw.Connection, message: QueueMessage) -> bool:
    """Remove it if this delivery is its last."""
    db.execute(
        "DELETE FROM messages WHERE id = ? AND owner = ? AND attempts = ?",
        (message.id, message.owner, message.attempts),
    )
    return db.changes() == 1


def release_message(db: apsw.Connection, message: QueueMessage, delay_ms: int, now_ms: int) -> bool:
    """Put it back if this delivery is its last."""
    db.execute(
        "UPDATE messages SET owner = NULL, due_ms = ? WHERE id = ? AND owner = ? AND attempts = ?",
        (now_ms + delay_ms, message.id, message.owner, message.attempts),
    )
    return db.changes() == 1


def read_depth(db: apsw.Connection, queue: str) -> int:
    """How many messages the queue holds."""
    ((count,),) = query(db, "SELECT count(*) FROM messages WHERE queue = ?", (queue,))
    return int(count)


def _is_full(db: apsw.Connection, message: PreparedMessage, bound: int) -> bool:
    """Whether there is no room for it; a message that will be dropped needs none."""
    if message.dedup_key is not None and query(
        db,
        "SELECT 1 FROM messages WHERE queue = ? AND dedup_key = ?",
        (message.queue, message.dedup_key),
    ):
        return False
    ((count,),) = query(
        db,
        "SELECT count(*) FROM (SELECT 1 FROM messages WHERE queue = ? LIMIT ?)",
        (message.queue, bound),
    )
    return int(count) >= bound
