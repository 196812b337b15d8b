"""The store as `QueueStore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ekiden.core.errors import QueueFull
from ekiden.storage.base import QueueMessage, QueuePut
from ekiden.storage.postgres.role import Role
from ekiden.storage.postgres.rows import queue_message
from ekiden.storage.postgres.text import to_column, to_column_or_null
from ekiden.storage.values import json_text

_PUT = """
insert into messages (queue, body, priority, dedup_key, due_at)
select queue, body, priority, dedup_key, clock_timestamp() + delay_s * interval '1 second'
from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::float8[])
    with ordinality as new (queue, body, priority, dedup_key, delay_s, place)
order by place
on conflict (queue, dedup_key) where dedup_key is not null do nothing"""
_LOCK = "select pg_advisory_xact_lock(hashtextextended(current_schema() || '/' || $1, 0))"
_HAS_KEY = "select true from messages where queue = $1 and dedup_key = $2"
_DEPTH = "select count(*) from messages where queue = $1"
_DEPTH_UP_TO = "select count(*) from (select from messages where queue = $1 limit $2) as counted"
_TAKE = """
with next as (
    select id as found from messages where queue = $1 and due_at <= clock_timestamp()
    order by priority desc, id limit $4 for update skip locked
)
update messages set owner = $2, attempts = attempts + 1,
    due_at = clock_timestamp() + $3::float8 * interval '1 second'
from next where id = found
returning id, queue, body, priority, attempts, owner"""
_ACK = "delete from messages where id = $1 and owner = $2 and attempts = $3 returning id"
_RELEASE = """
update messages set owner = null, due_at = clock_timestamp() + $4::float8 * interval '1 second'
where id = $1 and owner = $2 and attempts = $3 returning id"""


class PreparedMessage(NamedTuple):
    """A message with its body as JSON text."""

    put: QueuePut
    body: str


def prepare_messages(puts: Sequence[QueuePut]) -> Sequence[PreparedMessage]:
    """The messages; `UserError` for what is not JSON."""
    return [
        PreparedMessage(put, json_text(put.body, "a message for queue {!r}", put.queue))
        for put in puts
    ]


class Queues(Role):
    """Durable queues."""

    async def put_messages(self, messages: Sequence[QueuePut]) -> None:
        prepared = prepare_messages(messages)

        async def work(connection: Any) -> None:
            await store_messages(connection, prepared)

        if any(message.bound is not None for message in messages):
            await self._database.transact(work)
        else:
            await self._database.run(work)
        self._changes.changed()

    async def take_messages(
        self, queue: str, *, owner: str, lease_s: float, limit: int = 1
    ) -> Sequence[QueueMessage]:
        args = (to_column(queue), to_column(owner), lease_s, limit)
        taken = [queue_message(record) for record in await self._database.query(_TAKE, *args)]
        return sorted(taken, key=lambda message: (-message.priority, message.id))

    async def ack_message(self, message: QueueMessage) -> bool:
        return bool(await self._database.query(_ACK, *_delivery(message)))

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        done = await self._database.query(_RELEASE, *_delivery(message), delay_s)
        self._changes.changed()
        return bool(done)

    async def queue_depth(self, queue: str) -> int:
        found = await self._database.query(_DEPTH, to_column(queue), repeatable=True)
        depth: int = found[0][0]
        return depth


def _delivery(message: QueueMessage) -> tuple[int, str, int]:
    return message.id, to_column(message.owner), message.attempts


async def store_messages(connection: Any, messages: Sequence[PreparedMessage]) -> None:
    """Store them, in order; `QueueFull` means that the transaction must be undone.

    Without any bound that is one statement, which needs no transaction around it.
    """
    bounded = {each.put.queue for each in messages if each.put.bound is not None}
    if not bounded:
        await _insert(connection, messages)
        return
    for queue in sorted(bounded):
        # Counting and adding must not be interleaved with that of others.
        await connection.execute(_LOCK, to_column(queue))
    for message in messages:
        put = message.put
        if put.bound is not None and not await _has_key(connection, put):
            queue = to_column(put.queue)
            if await connection.fetchval(_DEPTH_UP_TO, queue, put.bound) >= put.bound:
                raise QueueFull(put.queue, put.bound)
        await _insert(connection, [message])


async def _has_key(connection: Any, message: QueuePut) -> bool:
    if message.dedup_key is None:
        return False
    args = (to_column(message.queue), to_column(message.dedup_key))
    return await connection.fetchval(_HAS_KEY, *args) is True


async def _insert(connection: Any, messages: Sequence[PreparedMessage]) -> None:
    puts = [message.put for message in messages]
    await connection.execute(
        _PUT,
        [to_column(put.queue) for put in puts],
        [message.body for message in messages],
        [put.priority for put in puts],
        [to_column_or_null(put.dedup_key) for put in puts],
        [put.delay_s for put in puts],
    )
