"""What a commit and a batch may write beside everything else, in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ekiden.core.errors import SessionExists
from ekiden.storage.base import Batch, Commit, PutReceipt, SessionOpening, Settled, Written
from ekiden.storage.postgres.documents import PreparedDocument, prepare_documents, store_documents
from ekiden.storage.postgres.puts import PreparedMessage, prepare_messages, store_messages
from ekiden.storage.postgres.rows import WRITTEN_EVENT, event_columns
from ekiden.storage.postgres.sessions import INSERT, NEW, new_columns
from ekiden.storage.postgres.settles import PreparedSettle, prepare_settles, store_settles
from ekiden.storage.postgres.wakes import lock_sessions, wake_sessions
from ekiden.storage.values import check_numbers, json_text

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


class PreparedOpening(NamedTuple):
    """A session to be made, as columns."""

    session_id: str
    columns: Sequence[Any]


def prepare_openings(openings: Sequence[SessionOpening]) -> Sequence[PreparedOpening]:
    """The sessions; `StepConflict` for events that are not numbered from 1, `UserError`."""
    return [_prepared(opening) for opening in openings]


def _prepared(opening: SessionOpening) -> PreparedOpening:
    new, events = opening.new, opening.events
    if events:
        check_numbers(new.id, 0, events)
    columns = [
        *new_columns(new),
        json_text(opening.cursor, "the cursor of session {!r}", new.id),
        json_text(opening.variables, "`variables` of session {!r}", new.id),
        *event_columns(new.id, events),
    ]
    return PreparedOpening(new.id, columns)


async def store_openings(connection: Any, openings: Sequence[PreparedOpening]) -> None:
    """Make them within the transaction of `connection`; `SessionExists`: it must be undone."""
    for opening in openings:
        if await connection.fetchval(_OPEN, *opening.columns) is None:
            raise SessionExists(opening.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Documents, messages, their ends, new sessions and those to wake, all JSON as text."""

    documents: Sequence[PreparedDocument]
    messages: Sequence[PreparedMessage]
    settles: Sequence[PreparedSettle]
    openings: Sequence[PreparedOpening]
    wakes: Sequence[str]

    @classmethod
    def prepare(cls, write: Commit | Batch) -> Beside:
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
