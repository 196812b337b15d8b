"""Queues in PostgreSQL: putting, taking, finding and settling messages."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ekiden.core.errors import QueueFull, StoreReadOnly
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
from ekiden.storage.postgres.changes import Role
from ekiden.storage.postgres.database import OutcomeUnknown, send_until_answered
from ekiden.storage.postgres.rows import (
    DELIVERY,
    IS_IN_TIME,
    MESSAGE,
    queue_message,
    stored_message,
    to_column,
    to_column_or_null,
)
from ekiden.storage.postgres.sessions import lock_sessions, wake_sql
from ekiden.storage.values import check_limit, check_settle, is_late, json_text

# `new` takes the ids, so that the last line can tell which messages were inserted.
_PUT = f"""
with new as materialized (
    select nextval('messages_id_seq') as id, said.*, case when bound is not null then bound <= (
        select count(*) from (
            select from messages
            where messages.queue = said.queue and state = 'open' and {IS_IN_TIME}
            limit said.bound
        ) as counted
    ) end as is_full
    from unnest($2::text[], $3::text[], $4::bigint[], $5::float8[], $6::text[], $7::bigint[],
        $8::text[], $9::text[], $10::text[], $11::float8[], $12::text[]) with ordinality
        as said (queue, body, priority, due_in_s, dedup_key, bound, key, waiter, session_id, ttl_s,
            taken_by, place)
), put as (
    insert into messages (id, queue, body, priority, dedup_key, key, waiter, session_id, owner,
        attempts, due_at, expires_at, token)
    overriding system value
    select id, queue, body, priority, dedup_key, key, waiter, session_id, taken_by,
        case when taken_by is null then 0 else 1 end,
        clock_timestamp() + due_in_s * interval '1 second',
        clock_timestamp() + ttl_s * interval '1 second', $1
    from new where is_full is not true order by place
    on conflict do nothing returning id
)
select id, put.id is not null as is_new, is_full from new left join put using (id) order by place"""
_LOCK = "select pg_advisory_xact_lock(hashtextextended(current_schema() || '/' || $1, 0))"
_WITH_KEY = "select id, token from messages where key = $1"
_WITH_DEDUP = "select true from messages where queue = $1 and dedup_key = $2"
SETTLED_COLUMNS = "settled_at = clock_timestamp(), due_at = 'infinity', dedup_key = null"
"""The columns that every final state changes."""
_IS_LAST = "($2::bigint is null or (id = $2 and owner = $3 and attempts = $4))"
# The session's row is locked before the message's; the head of `sessions.py` says why.
_SETTLE = f"""
with sleeper as materialized (
    select from sessions where id = (select session_id from messages where key = $1)
    for no key update
), done as (
    update messages set
        state = case when state = 'open' then $5::text else 'late' end,
        answer = $6,
        {SETTLED_COLUMNS}
    where key = $1 and {_IS_LAST} and (select count(*) from sleeper) >= 0 and (
        state = 'open'
        or (state in ('timed_out', 'cancelled') and $5 in ('answered', 'failed'))
    )
    returning state, session_id
), woken as ({wake_sql("done where state <> 'late'")}
)
select case state when 'late' then 'late' else 'settled' end from done"""
_FORGET = f"delete from messages where key = $1 and {_IS_LAST} returning 'settled'"
_LOOK = "select key, state, answer from messages where key = any($1::text[])"


class PreparedMessage(NamedTuple):
    """A message with its body as JSON text."""

    put: QueuePut
    body: str


def prepare_messages(puts: Sequence[QueuePut]) -> Sequence[PreparedMessage]:
    """The messages with their bodies as text. Raises `UserError` for bodies that are not JSON."""
    return [
        PreparedMessage(put, json_text(put.body, "a message for queue {!r}", put.queue))
        for put in puts
    ]


def is_bounded(messages: Sequence[PreparedMessage]) -> bool:
    """Whether a message has a bound, so that storing them needs a transaction."""
    return any(message.put.bound is not None for message in messages)


async def store_messages(
    connection: Any, messages: Sequence[PreparedMessage], *, token: int
) -> list[PutReceipt]:
    """Store the messages in order; after `QueueFull` the transaction must be rolled back.

    Without bounds, this is one statement and needs no transaction. A message that an earlier call
    with the same `token` stored under its key counts as new: that call's answer was lost.
    """
    if not messages:
        return []
    if not is_bounded(messages):
        return _new_once(await _insert(connection, messages, token))
    bounded = {each.put.queue for each in messages if each.put.bound is not None}
    for queue in sorted(bounded):
        # No other transaction may add messages between counting and adding.
        await connection.execute(_LOCK, to_column(queue))
    # One statement for each message: a statement does not count the rows that it adds itself.
    receipts: list[PutReceipt] = []
    for message in messages:
        receipts += await _insert(connection, [message], token)
    return _new_once(receipts)


def _new_once(receipts: Sequence[PutReceipt]) -> list[PutReceipt]:
    """The receipts, of which only the first of each message says that it is new."""
    seen: set[int] = set()
    result: list[PutReceipt] = []
    for receipt in receipts:
        is_new = receipt.is_new and receipt.id not in seen
        result.append(PutReceipt(id=receipt.id, is_new=is_new))
        seen.add(receipt.id)
    return result


async def _insert(
    connection: Any, messages: Sequence[PreparedMessage], token: int
) -> list[PutReceipt]:
    rows = await connection.fetch(_PUT, token, *_columns(messages))
    return [
        PutReceipt(id=row["id"], is_new=True)
        if row["is_new"]
        else await _explain_dropped(connection, message, token, is_full=bool(row["is_full"]))
        for message, row in zip(messages, rows, strict=True)
    ]


async def _explain_dropped(
    connection: Any, message: PreparedMessage, token: int, *, is_full: bool
) -> PutReceipt:
    """The receipt of a message that the insert dropped, or `QueueFull`. If the conflicting message
    is gone by now, the message is stored."""
    put = message.put
    if put.key is not None:
        found = await connection.fetchrow(_WITH_KEY, to_column(put.key))
        if found is not None:
            # With our token, an earlier attempt of this call stored it, and its answer was lost.
            return PutReceipt(id=found["id"], is_new=found["token"] == token)
    if put.dedup_key is not None:
        place = (to_column(put.queue), to_column(put.dedup_key))
        if await connection.fetchval(_WITH_DEDUP, *place):
            return PutReceipt(id=0, is_new=False)
    if is_full:
        raise QueueFull(put.queue, put.bound or 0)
    # The message that blocked the insert was settled or removed since.
    (receipt,) = await _insert(connection, [message], token)
    return receipt


def _columns(messages: Sequence[PreparedMessage]) -> list[list[Any]]:
    puts = [message.put for message in messages]
    return [
        [to_column(put.queue) for put in puts],
        [message.body for message in messages],
        [put.priority for put in puts],
        # A message that is stored as already taken is due again when its lease ends.
        [put.delay_s if put.taken_by is None else put.lease_s for put in puts],
        [to_column_or_null(put.dedup_key) for put in puts],
        [None if put.bound is None else max(put.bound, 0) for put in puts],
        [to_column_or_null(put.key) for put in puts],
        [to_column_or_null(put.waiter) for put in puts],
        [to_column_or_null(put.session_id) for put in puts],
        [put.ttl_s for put in puts],
        [to_column_or_null(put.taken_by) for put in puts],
    ]


class PostgresSettle(NamedTuple):
    """A settlement with its answer as JSON text."""

    settle: MessageSettle
    answer: str | None

    @property
    def wakes(self) -> bool:
        """Whether the settlement may wake a session."""
        return not self.settle.forget


def prepare_settles(settles: Sequence[MessageSettle]) -> Sequence[PostgresSettle]:
    """The settlements with their answers as text. Raises `UserError` for answers that are not JSON
    and invalid states."""
    for settle in settles:
        check_settle(settle)
    return [
        PostgresSettle(
            settle,
            None
            if settle.answer is None
            else json_text(settle.answer, "the answer to message {!r}", settle.key),
        )
        for settle in settles
    ]


async def store_settles(connection: Any, settles: Sequence[PostgresSettle]) -> list[Settled]:
    """Settle the messages with one statement each; several settlements need a transaction.

    Messages are settled in the order of their keys, so that two transactions that settle the same
    messages do not deadlock.
    """
    results: list[Settled] = ["no"] * len(settles)
    for place in sorted(range(len(settles)), key=lambda place: settles[place].settle.key):
        results[place] = await _settle(connection, settles[place]) or "no"
    return results


async def _settle(connection: Any, prepared: PostgresSettle) -> Settled | None:
    settle, by = prepared.settle, prepared.settle.by
    delivery = (None, None, None) if by is None else (by.id, to_column(by.owner), by.attempts)
    args: list[Any] = [to_column(settle.key), *delivery]
    if settle.forget:
        result: Settled | None = await connection.fetchval(_FORGET, *args)
    else:
        result = await connection.fetchval(_SETTLE, *args, settle.state, prepared.answer)
    return result


async def repeated_settles(connection: Any, settles: Sequence[PostgresSettle]) -> list[Settled]:
    """The results of settlements that are sent again because the outcome of the first attempt is
    unknown. A message that is already in the wanted state was settled by the first attempt."""
    results = await store_settles(connection, settles)
    keys = [to_column(each.settle.key) for each in settles]
    found = {
        row["key"]: (row["state"], row["answer"]) for row in await connection.fetch(_LOOK, keys)
    }
    return [
        _first_result(each, *found.get(key, (None, None))) if result == "no" else result
        for each, key, result in zip(settles, keys, results, strict=True)
    ]


def _first_result(prepared: PostgresSettle, state: str | None, answer: str | None) -> Settled:
    """The result of the first attempt, which follows from the message's present state and
    answer."""
    wanted = prepared.settle.state
    if prepared.settle.forget:
        return "settled" if state is None else "no"
    if state == wanted:
        return "settled" if answer == prepared.answer else "no"
    if state == "late" and not is_late("timed_out", wanted):
        # The first attempt gave up, and an answer came since.
        return "settled" if is_late(wanted, "answered") else "no"
    return "late" if state == "late" and answer == prepared.answer else "no"


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
# Sessions are locked before messages; the head of `sessions.py` says why. The count makes the
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
_IS_TAKEN = "id = $1 and owner = $2 and attempts = $3 and state = 'open'"
_ACK = f"delete from messages where {_IS_TAKEN} returning id"
_RELEASE = f"""
update messages set owner = null, due_at = clock_timestamp() + $4::float8 * interval '1 second'
where {_IS_TAKEN} returning id"""
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
