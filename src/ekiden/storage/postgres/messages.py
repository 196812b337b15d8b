"""Putting messages into queues, settling them, and waking sessions; the order of row locks.

Two transactions that wake each other's sessions while they commit their own would deadlock. So all
transactions lock session rows before documents and messages, and several session rows in the order
of their numbers: a transaction that wakes other sessions calls `lock_sessions` first. The server
detects the remaining deadlocks, such as two transactions that put the same two keys in opposite
order, and `Database.run` retries one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ekiden.core.errors import QueueFull
from ekiden.storage.base import MessageSettle, PutReceipt, QueuePut, Settled
from ekiden.storage.postgres.rows import IS_IN_TIME, READY_NOW, to_column, to_column_or_null
from ekiden.storage.values import check_settle, is_late, json_text

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
_LAST = "($2::bigint is null or (id = $2 and owner = $3 and attempts = $4))"
# The session's row is locked before the message's; the head of this file says why.
_SETTLE = f"""
with sleeper as materialized (
    select from sessions where id = (select session_id from messages where key = $1)
    for no key update
), done as (
    update messages set
        state = case when state = 'open' then $5::text else 'late' end,
        answer = $6,
        {SETTLED_COLUMNS}
    where key = $1 and {_LAST} and (select count(*) from sleeper) >= 0 and (
        state = 'open'
        or (state in ('timed_out', 'cancelled') and $5 in ('answered', 'failed'))
    )
    returning state, session_id
), woken as ({wake_sql("done where state <> 'late'")}
)
select case state when 'late' then 'late' else 'settled' end from done"""
_FORGET = f"delete from messages where key = $1 and {_LAST} returning 'settled'"
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
        results[place] = await _store(connection, settles[place]) or "no"
    return results


async def _store(connection: Any, prepared: PostgresSettle) -> Settled | None:
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
