"""Batches, and the writes that accompany a step.

A batch first inserts its random token into the table `writes`. If the connection breaks, the batch
is sent again with the same token: if the first attempt was stored, the insert conflicts, and the
stored result is returned instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ekiden.core.errors import SessionExists
from ekiden.core.events import Event
from ekiden.core.values import dumps, loads
from ekiden.storage.base import (
    MESSAGES,
    Batch,
    Commit,
    PutReceipt,
    SessionOpening,
    Settled,
    Written,
)
from ekiden.storage.chain import HEAD
from ekiden.storage.postgres.connection.database import send_until_answered
from ekiden.storage.postgres.connection.errors import OutcomeUnknown
from ekiden.storage.postgres.documents import (
    PostgresDocumentWrite,
    prepare_documents,
    store_documents,
)
from ekiden.storage.postgres.messages import (
    WRITES_EVENTS,
    PostgresSettle,
    PreparedMessage,
    lock_sessions,
    prepare_messages,
    prepare_settles,
    store_messages,
    store_settles,
    wake_sessions,
)
from ekiden.storage.postgres.role import Role
from ekiden.storage.postgres.rows import EVENT, WRITTEN_EVENT, event_columns
from ekiden.storage.postgres.sessions import INSERT, NEW, new_columns
from ekiden.storage.values import check_free_event, check_numbers, json_text

_OPEN = f"""
with made as (
    {INSERT}, cursor, variables, seq)
    select {NEW}, $7, $8, cardinality($9::bigint[])
    from clock_timestamp() as now
    on conflict (id) do nothing returning num
), new_events as (
    insert into events (session, {WRITTEN_EVENT})
    select num, said.* from made, unnest($9, $10::text[], $11::bigint[], $12::text[], $13::text[],
        $14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[]) as said
)
select num from made"""
_BEGIN = f"""
with {WRITES_EVENTS}, old as (
    delete from writes where token in (
        select token from writes where written_at < clock_timestamp() - interval '1 hour'
        order by written_at limit 10 for update skip locked
    )
)
insert into writes (token) select $1::bigint {{when}} on conflict do nothing returning token"""
_BEGIN_WITHOUT_EVENTS = _BEGIN.format(when="")
# Transactions with events outside sessions run one after the other, from before they get their
# number until they end: so these events become visible in the order of their own numbers.
_BEGIN_WITH_EVENTS = _BEGIN.format(
    when="from pg_advisory_xact_lock(hashtextextended(current_schema() || ':free_events', 0))"
)
_STORE_RESULT = "update writes set result = $2 where token = $1"
_RESULT = "select result from writes where token = $1"
_EVENT = ", ".join(EVENT.split(", ")[1:])
# The lock of `_BEGIN_WITH_EVENTS` is held: no other transaction chains events to the same head.
_INSERT_FREE_EVENTS = f"""
with head as (
    insert into documents as old (collection, key, body)
    values ('{HEAD[0]}', '{HEAD[1]}',
        '"' || encode(sha256(convert_to($11::text, 'UTF8')), 'hex') || '"')
    on conflict (collection, key) do update set
        body = '"' || encode(sha256(convert_to(old.body || $11::text, 'UTF8')), 'hex') || '"',
        version = old.version + 1, updated_at = clock_timestamp()
    returning trim(both '"' from body) as digest
)
insert into events (session, seq, {_EVENT}, digest)
select 0, nextval('free_events'), {_EVENT},
    $10::text || ':' || case when new.is_last then head.digest end
from head, unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[],
    $7::text[], $8::text[], $9::boolean[]) as new ({_EVENT}, is_last)"""
_NOW = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"


class PostgresNewSession(NamedTuple):
    """A session to be created, as columns."""

    session_id: str
    columns: Sequence[Any]


def prepare_openings(openings: Sequence[SessionOpening]) -> Sequence[PostgresNewSession]:
    """The sessions as columns; raises `UserError`, and `StepConflict` for events that are not
    numbered from 1."""
    return [_prepare_opening(opening) for opening in openings]


def _prepare_opening(opening: SessionOpening) -> PostgresNewSession:
    new, events = opening.new, opening.events
    if events:
        check_numbers(new.id, 0, events)
    columns = [
        *new_columns(new),
        json_text(opening.cursor, "the cursor of session {!r}", new.id),
        json_text(opening.variables, "`variables` of session {!r}", new.id),
        *event_columns(new.id, events),
    ]
    return PostgresNewSession(new.id, columns)


async def store_openings(connection: Any, openings: Sequence[PostgresNewSession]) -> None:
    """Create the sessions within the transaction of `connection`, which must be rolled back after
    `SessionExists`."""
    for opening in openings:
        if await connection.fetchval(_OPEN, *opening.columns) is None:
            raise SessionExists(opening.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideWrites:
    """Documents, messages, settlements, new sessions and wakes, with all JSON as text."""

    documents: Sequence[PostgresDocumentWrite]
    messages: Sequence[PreparedMessage]
    settles: Sequence[PostgresSettle]
    openings: Sequence[PostgresNewSession]
    wakes: Sequence[str]

    @classmethod
    def prepare(cls, write: Commit | Batch) -> SideWrites:
        """The prepared writes; raises `UserError` or `StepConflict`."""
        return cls(
            documents=prepare_documents(write.documents),
            messages=prepare_messages(write.messages),
            settles=prepare_settles(write.settles),
            openings=prepare_openings(write.openings),
            wakes=write.wakes,
        )

    def __bool__(self) -> bool:
        return bool(self.documents or self.messages or self.settles or self.openings or self.wakes)

    @property
    def topics(self) -> set[str]:
        """The topics of the changes, for waiting tasks."""
        topics = {each.write.collection for each in self.documents}
        if self.messages or self.settles:
            topics.add(MESSAGES)
        return topics

    async def lock(self, connection: Any, *, num: int | None = None) -> None:
        """Lock the sessions that may be woken, and the session `num`. If there are any, this must
        come before the first write; the head of `messages.py` says why."""
        keys = [each.settle.key for each in self.settles if each.wakes]
        if keys or self.wakes:
            await lock_sessions(connection, num=num, ids=self.wakes, keys=keys)

    async def store(self, connection: Any, *, token: int) -> Written:
        """Store the writes. After `SessionExists`, `StaleDocument` or `QueueFull` the transaction
        must be rolled back."""
        receipts: Sequence[PutReceipt] = ()
        settled: Sequence[Settled] = ()
        if self.openings:
            await store_openings(connection, self.openings)
        if self.documents:
            await store_documents(connection, self.documents)
        if self.messages:
            receipts = await store_messages(connection, self.messages, token=token)
        if self.settles:
            settled = await store_settles(connection, self.settles)
        if self.wakes:
            await wake_sessions(connection, self.wakes)
        return Written(receipts=receipts, settled=settled)


class Batches(Role):
    """Batches, and the store's clock."""

    async def write(self, batch: Batch) -> Written:
        for event in batch.events:
            check_free_event(event)
        side_writes = SideWrites.prepare(batch)
        events = _free_event_columns(batch.events) if batch.events else None
        begin = _BEGIN_WITHOUT_EVENTS if events is None else _BEGIN_WITH_EVENTS
        token = secrets.randbits(63)

        async def work(connection: Any) -> Written:
            if await connection.fetchval(begin, token) is None:
                return _from_text(await connection.fetchval(_RESULT, token))
            await side_writes.lock(connection)
            written = await side_writes.store(connection, token=token)
            if events is not None:
                await connection.execute(_INSERT_FREE_EVENTS, *events)
            if batch.messages or batch.settles:
                await connection.execute(_STORE_RESULT, token, _to_text(written))
            return written

        async def send(_again: bool) -> Written:
            return await self._database.transact(work)

        written = await send_until_answered(self._database, send, _unknown)
        self._changes.changed(side_writes.topics)
        return written

    async def now_us(self) -> int:
        found = await self._database.query(_NOW, repeatable=True)
        now_us: int = found[0][0]
        return now_us


def _unknown(why: str) -> OutcomeUnknown:
    return OutcomeUnknown(why, "a batch was", advice="read the stored data before you write again")


def _free_event_columns(events: Sequence[Event]) -> list[Any]:
    """The arguments of `_INSERT_FREE_EVENTS`."""
    *columns, digests = event_columns("", events)[1:]
    number, _, content = (digests[-1] or "").partition(":")
    return [*columns, [digest is not None for digest in digests], number, content]


def _to_text(written: Written) -> str:
    receipts = [[receipt.id, receipt.is_new] for receipt in written.receipts]
    return dumps([receipts, list(written.settled)])


def _from_text(text: str | None) -> Written:
    if text is None:
        return Written()
    receipts, settled = loads(text)
    return Written(
        receipts=[PutReceipt(id=number, is_new=is_new) for number, is_new in receipts],
        settled=settled,
    )
