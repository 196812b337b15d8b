"""Queues in PostgreSQL: taking, finding and settling messages."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from ekiden.core.errors import StoreReadOnly
from ekiden.storage.base import (
    MESSAGES,
    MessageFilter,
    MessageSettle,
    PutReceipt,
    QueueMessage,
    QueuePut,
    Settled,
    StoredMessage,
)
from ekiden.storage.postgres.connection.changes import Role
from ekiden.storage.postgres.connection.database import send_until_answered
from ekiden.storage.postgres.connection.errors import OutcomeUnknown
from ekiden.storage.postgres.messages import (
    SETTLED_COLUMNS,
    is_bounded,
    lock_sessions,
    prepare_messages,
    prepare_settles,
    repeated_settles,
    store_messages,
    store_settles,
    wake_sql,
)
from ekiden.storage.postgres.rows import (
    DELIVERY,
    IS_IN_TIME,
    MESSAGE,
    queue_message,
    stored_message,
    to_column,
)
from ekiden.storage.values import check_limit

_DUE = "queue = $1 and state = 'open' and due_at <= clock_timestamp()"
_IS_EXPIRED = f"{_DUE} and expires_at <= clock_timestamp()"
_TAKE = f"""
with next as (
    select id as found from messages
    where {_DUE} and (expires_at is null or expires_at > clock_timestamp())
    order by {{order}} limit $4 for update skip locked
), taken as (
    update messages set owner = $2, attempts = attempts + 1,
        due_at = clock_timestamp() + $3::float8 * interval '1 second'
    from next where id = found
    returning {DELIVERY}
)
select false as any_expired, taken.* from taken
union all select true, {", ".join(["null"] * len(DELIVERY.split(",")))}
where exists (select from messages where {_IS_EXPIRED})"""
_TAKE_FIRST = _TAKE.format(order="priority desc, id")
_TAKE_OLDEST = _TAKE.format(order="id")
# Sessions are locked before messages; the head of `messages.py` says why. The count makes the
# server lock the sessions first: it would not run a part of the statement that is not used.
_EXPIRE = f"""
with over as materialized (
    select id as found, session_id as sleeper from messages where {_IS_EXPIRED} order by id
), sleepers as materialized (
    select from sessions where id in (select sleeper from over) order by num for no key update
), held as materialized (
    select id as found from messages
    where id in (select found from over) and {_IS_EXPIRED} and (select count(*) from sleepers) >= 0
    order by id for update skip locked
), done as (
    update messages set state = 'expired', {SETTLED_COLUMNS} from held where id = found
    returning session_id
), woken as ({wake_sql("done")}
)
select count(*) from done"""
_EXPIRE_ALL = _EXPIRE.replace("queue = $1 and ", "")
_DEPTH = f"select count(*) from messages where queue = $1 and state = 'open' and {IS_IN_TIME}"
_LAST = "id = $1 and owner = $2 and attempts = $3 and state = 'open'"
_ACK = f"delete from messages where {_LAST} returning id"
_RELEASE = f"""
update messages set owner = null, due_at = clock_timestamp() + $4::float8 * interval '1 second'
where {_LAST} returning id"""
_REQUEUE = """
with held as materialized (
    select id as found from messages
    where key = any($1::text[]) and state in ('dead', 'expired') order by id for update
)
update messages set state = 'open', attempts = 0, owner = null, answer = null, waiter = null,
    due_at = clock_timestamp(), expires_at = null, settled_at = null
from held where id = found returning id"""
_PRUNE = """
with old as materialized (
    select id as found from messages
    where settled_at < timestamptz 'epoch' + $1::bigint * interval '1 microsecond'
    order by settled_at, id limit $2 for update skip locked
)
delete from messages using old where id = found returning id"""


class Queues(Role):
    """Durable queues."""

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        prepared = prepare_messages(messages)
        token = secrets.randbits(63)
        run = self._database.transact if is_bounded(prepared) else self._database.run

        async def work(connection: Any) -> list[PutReceipt]:
            return await store_messages(connection, prepared, token=token)

        async def send(_again: bool) -> list[PutReceipt]:
            return await run(work)

        def unknown(why: str) -> OutcomeUnknown:
            return OutcomeUnknown(
                why, "messages were", advice="put them again, by their keys none is stored twice"
            )

        # Without a key, a second attempt could store a message twice.
        if all(message.key is not None for message in messages):
            receipts = await send_until_answered(self._database, send, unknown)
        else:
            receipts = await send(False)
        self._changes.changed([MESSAGES])
        return receipts

    async def take_messages(
        self,
        queue: str,
        *,
        owner: str,
        lease_s: float,
        limit: int = 1,
        oldest_first: bool = False,
    ) -> Sequence[QueueMessage]:
        name = to_column(queue)
        sql = _TAKE_OLDEST if oldest_first else _TAKE_FIRST
        found = await self._database.query(sql, name, to_column(owner), lease_s, max(limit, 0))
        if any(record["any_expired"] for record in found):
            await self._database.query(_EXPIRE, name, repeatable=True)
            self._changes.changed([MESSAGES])
        taken = [queue_message(record) for record in found if not record["any_expired"]]
        if oldest_first:
            return sorted(taken, key=lambda message: message.id)
        return sorted(taken, key=lambda message: (-message.priority, message.id))

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        prepared = prepare_settles(settles)
        woken = [each.settle.key for each in prepared if each.wakes]
        several = len(prepared) > 1
        run = self._database.transact if several else self._database.run

        async def send(again: bool) -> list[Settled]:
            async def work(connection: Any) -> list[Settled]:
                if several:
                    await lock_sessions(connection, num=None, ids=(), keys=woken)
                if again:
                    return await repeated_settles(connection, prepared)
                return await store_settles(connection, prepared)

            return await run(work)

        def unknown(why: str) -> OutcomeUnknown:
            return OutcomeUnknown(
                why, "a settlement was", advice="settle the messages again, the first one counts"
            )

        results = await send_until_answered(self._database, send, unknown)
        self._changes.changed([MESSAGES])
        return results

    async def find_messages(
        self, where: MessageFilter = MessageFilter(), *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredMessage]:
        check_limit(limit, "messages")
        sql, args = _page_sql(where, after, limit)
        if where.states is not None and "expired" in where.states:
            await self._expire()
        found = await self._database.query(sql, *args, repeatable=True)
        if any(record["is_expired"] for record in found):
            await self._expire()
            found = await self._database.query(sql, *args, repeatable=True)
        return [stored_message(record) for record in found]

    async def requeue_messages(self, keys: Collection[str]) -> int:
        stored = [to_column(key) for key in keys]
        count = len(await self._database.query(_REQUEUE, stored))
        self._changes.changed([MESSAGES])
        return count

    async def prune_messages(self, *, before_us: int, limit: int = 1000) -> int:
        return len(await self._database.query(_PRUNE, before_us, max(limit, 0)))

    async def ack_message(self, message: QueueMessage) -> bool:
        done = await self._database.query(_ACK, *_delivery(message))
        self._changes.changed([MESSAGES])
        return bool(done)

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        done = await self._database.query(_RELEASE, *_delivery(message), delay_s)
        self._changes.changed([MESSAGES])
        return bool(done)

    async def queue_depth(self, queue: str) -> int:
        found = await self._database.query(_DEPTH, to_column(queue), repeatable=True)
        depth: int = found[0][0]
        return depth

    async def _expire(self) -> None:
        """Settle expired messages, even if no agent serves their queues.

        In a read-only store they stay as they are.
        """
        with suppress(StoreReadOnly):
            await self._database.query(_EXPIRE_ALL, repeatable=True)
            self._changes.changed([MESSAGES])


def _delivery(message: QueueMessage) -> tuple[int, str, int]:
    return message.id, to_column(message.owner), message.attempts


def _page_sql(where: MessageFilter, after: int, limit: int) -> tuple[str, list[Any]]:
    """The statement for a page of messages, with its arguments."""
    args: list[Any] = [after, limit]
    conditions = ["id > $1"]

    def restrict(condition: str, value: Any) -> None:
        args.append(value)
        conditions.append(condition.format(f"${len(args)}"))

    if where.keys is not None:
        restrict("key = any({}::text[])", [to_column(key) for key in where.keys])
    if where.queue is not None:
        restrict("queue = {}", to_column(where.queue))
    if where.queues is not None:
        restrict("queue = any({}::text[])", [to_column(queue) for queue in where.queues])
    if where.states is not None:
        states = sorted(where.states)
        if states in (["open"], ["dead"]):
            # The condition of the indexes, word for word: the planner does not know the values of
            # parameters.
            conditions.append(f"state = '{states[0]}'")
        else:
            restrict("state = any({}::text[])", states)
    if where.waiters is not None:
        restrict("waiter = any({}::text[])", [to_column(waiter) for waiter in where.waiters])
    if where.waited_for:
        conditions.append("waiter is not null")
    if where.session_id is not None:
        restrict("session_id = {}", to_column(where.session_id))
    found = f"select {MESSAGE} from messages where {' and '.join(conditions)}"
    chosen = (where.keys, where.queues, where.waiters, where.session_id)
    if any(each is not None for each in chosen):
        # Few messages match. `offset 0` makes the server find them by their index, instead of
        # reading all messages in the order of ids until it has enough.
        found = f"select * from ({found} offset 0) as found"
    return f"{found} order by id limit $2", args
