"""Writes that accompany a step, and batches: each stored exactly once."""

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
from ekiden.storage.postgres.connection.database import answered
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
_BEGIN_QUIETLY = _BEGIN.format(when="")
# One after the other, from before they have their transaction's number until they end, so that the
# events of no session become visible in the order of their own numbers.
_BEGIN_TO_SAY = _BEGIN.format(
    when="from pg_advisory_xact_lock(hashtextextended(current_schema() || ':free_events', 0))"
)
_REMEMBER = "update writes set result = $2 where token = $1"
_RESULT = "select result from writes where token = $1"
_EVENT = ", ".join(EVENT.split(", ")[1:])
# The lock of `_BEGIN_TO_SAY` is held: nobody else links events to the same head.
_SAY = f"""
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
    $10::text || ':' || case when said.ends then head.digest end
from head, unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[],
    $7::text[], $8::text[], $9::boolean[]) as said ({_EVENT}, ends)"""
_NOW = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"


class PostgresNewSession(NamedTuple):
    """A session to be made, as columns."""

    session_id: str
    columns: Sequence[Any]


def prepare_openings(openings: Sequence[SessionOpening]) -> Sequence[PostgresNewSession]:
    """The sessions; `StepConflict` for events that are not numbered from 1, `UserError`."""
    return [_prepared(opening) for opening in openings]


def _prepared(opening: SessionOpening) -> PostgresNewSession:
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
    """Make them within the transaction of `connection`; `SessionExists`: it must be undone."""
    for opening in openings:
        if await connection.fetchval(_OPEN, *opening.columns) is None:
            raise SessionExists(opening.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideWrites:
    """Documents, messages, their ends, new sessions and those to wake, all JSON as text."""

    documents: Sequence[PostgresDocumentWrite]
    messages: Sequence[PreparedMessage]
    settles: Sequence[PostgresSettle]
    openings: Sequence[PostgresNewSession]
    wakes: Sequence[str]

    @classmethod
    def prepare(cls, write: Commit | Batch) -> SideWrites:
        """`UserError`, `StepConflict`."""
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
        """The topics, to wake tasks that wait for changes."""
        topics = {each.write.collection for each in self.documents}
        if self.messages or self.settles:
            topics.add(MESSAGES)
        return topics

    async def lock(self, connection: Any, *, num: int | None = None) -> None:
        """Lock the sessions that may be woken, and the one numbered `num`, if there are any: to be
        called before anything is written."""
        keys = [each.settle.key for each in self.settles if each.wakes]
        if keys or self.wakes:
            await lock_sessions(connection, num=num, ids=self.wakes, keys=keys)

    async def store(self, connection: Any, *, token: int) -> Written:
        """Write it; `SessionExists`, `StaleDocument`, `QueueFull`: all must be undone."""
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
    """Batches of writes to all parts of the store."""

    async def write(self, batch: Batch) -> Written:
        for event in batch.events:
            check_free_event(event)
        side_writes = SideWrites.prepare(batch)
        said = _said(batch.events) if batch.events else None
        begin = _BEGIN_QUIETLY if said is None else _BEGIN_TO_SAY
        token = secrets.randbits(63)

        async def work(connection: Any) -> Written:
            if await connection.fetchval(begin, token) is None:
                return _written(await connection.fetchval(_RESULT, token))
            await side_writes.lock(connection)
            written = await side_writes.store(connection, token=token)
            if said is not None:
                await connection.execute(_SAY, *said)
            if batch.messages or batch.settles:
                await connection.execute(_REMEMBER, token, _text(written))
            return written

        async def send(_again: bool) -> Written:
            return await self._database.transact(work)

        written = await answered(self._database, send, _unknown)
        self._changes.changed(side_writes.topics)
        return written

    async def now_us(self) -> int:
        found = await self._database.query(_NOW, repeatable=True)
        now_us: int = found[0][0]
        return now_us


def _unknown(why: str) -> OutcomeUnknown:
    return OutcomeUnknown(why, "a batch was", advice="read the stored data before you write again")


def _said(events: Sequence[Event]) -> list[Any]:
    """The arguments of `_SAY`."""
    *columns, digests = event_columns("", events)[1:]
    number, _, content = (digests[-1] or "").partition(":")
    return [*columns, [digest is not None for digest in digests], number, content]


def _text(written: Written) -> str:
    receipts = [[receipt.id, receipt.is_new] for receipt in written.receipts]
    return dumps([receipts, list(written.settled)])


def _written(text: str | None) -> Written:
    if text is None:
        return Written()
    receipts, settled = loads(text)
    return Written(
        receipts=[PutReceipt(id=number, is_new=is_new) for number, is_new in receipts],
        settled=settled,
    )
