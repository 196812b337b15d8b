"""Storing a batch exactly once, whatever happens to the connection.

A batch leaves a token, with what came of it, in the same transaction. If the connection breaks, the
batch is sent again with the same token: the second copy waits for the first, if that is still under
way, and when the token is there, the batch was stored.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.core.jsonio import dumps, loads
from ekiden.storage.base import Batch, PutReceipt, Written
from ekiden.storage.digests import HEAD
from ekiden.storage.postgres.beside import Beside
from ekiden.storage.postgres.doubt import answered
from ekiden.storage.postgres.errors import OutcomeUnknown
from ekiden.storage.postgres.role import Role
from ekiden.storage.postgres.rows import EVENT, event_columns
from ekiden.storage.postgres.wakes import WRITES_EVENTS
from ekiden.storage.values import check_free_event

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


class Batches(Role):
    """Writes over all roles."""

    async def write(self, batch: Batch) -> Written:
        for event in batch.events:
            check_free_event(event)
        beside = Beside.prepare(batch)
        said = _said(batch.events) if batch.events else None
        begin = _BEGIN_QUIETLY if said is None else _BEGIN_TO_SAY
        token = secrets.randbits(63)

        async def work(connection: Any) -> Written:
            if await connection.fetchval(begin, token) is None:
                return _written(await connection.fetchval(_RESULT, token))
            await beside.lock(connection)
            written = await beside.store(connection, token=token)
            if said is not None:
                await connection.execute(_SAY, *said)
            if batch.messages or batch.settles:
                await connection.execute(_REMEMBER, token, _text(written))
            return written

        async def send(_again: bool) -> Written:
            return await self._database.transact(work)

        written = await answered(self._database, send, _unknown)
        self._changes.changed()
        return written

    async def now_us(self) -> int:
        found = await self._database.query(_NOW, repeatable=True)
        now_us: int = found[0][0]
        return now_us


def _unknown(why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        why, "a batch was", advice="look at what is stored before you write again"
    )


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
