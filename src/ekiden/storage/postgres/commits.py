"""Storing one step of a session exactly once, even if the connection is lost; and batches.

A batch first inserts its random token into the table `writes`. If the connection breaks, the batch
is sent again with the same token: if the first attempt was stored, the insert conflicts, and the
stored result is returned instead.

A commit carries the token of the previous commit and its own. It takes effect only while the
session's row has the previous token, and then writes its own. So it can be sent again after a lost
connection: if the first copy was stored, the second finds its own token, which is the answer;
otherwise the second is stored, and the first copy, should it still arrive, has no effect.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ekiden.core.errors import LeaseLost, SessionExists, StepConflict
from ekiden.core.events import Event
from ekiden.core.values import dumps, loads
from ekiden.storage.base import (
    MESSAGES,
    Batch,
    Claim,
    Commit,
    PutReceipt,
    SessionOpening,
    Settled,
    Written,
)
from ekiden.storage.chain import HEAD
from ekiden.storage.postgres.changes import Role
from ekiden.storage.postgres.database import (
    ANSWER_S,
    COMMAND_S,
    UNIQUE_VIOLATION,
    Database,
    OutcomeUnknown,
    send_until_answered,
)
from ekiden.storage.postgres.documents import (
    PostgresDocumentWrite,
    prepare_documents,
    store_documents,
)
from ekiden.storage.postgres.group_commit import (
    COMMIT,
    COMMIT_IF_FREE,
    LOOK,
    CommitArguments,
    CommitGroups,
    single_arguments,
)
from ekiden.storage.postgres.queues import (
    PostgresSettle,
    PreparedMessage,
    prepare_messages,
    prepare_settles,
    store_messages,
    store_settles,
)
from ekiden.storage.postgres.rows import (
    EVENT,
    WRITTEN_EVENT,
    ClaimHandle,
    event_columns,
    step_columns,
    to_column,
    to_column_or_null,
)
from ekiden.storage.postgres.sessions import (
    INSERT,
    NEW,
    WRITES_EVENTS,
    lock_sessions,
    new_columns,
    wake_sessions,
)
from ekiden.storage.values import (
    check_free_event,
    check_numbers,
    event_conflict,
    json_text,
    step_conflict,
)

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
    """The sessions as columns. Raises `UserError`, and `StepConflict` for events that are not
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
class SideRows:
    """Documents, messages, settlements, new sessions and wakes, with all JSON as text."""

    documents: Sequence[PostgresDocumentWrite]
    messages: Sequence[PreparedMessage]
    settles: Sequence[PostgresSettle]
    openings: Sequence[PostgresNewSession]
    wakes: Sequence[str]

    @classmethod
    def prepare(cls, write: Commit | Batch) -> SideRows:
        """The prepared writes. Raises `UserError` or `StepConflict`."""
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
        come before the first write; the head of `sessions.py` says why."""
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
        side_writes = SideRows.prepare(batch)
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


_STORED_EVENT = f"select {EVENT} from events where session = $1 and seq = $2"


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """A commit that is being stored."""

    claim: Claim
    commit: Commit
    handle: ClaimHandle
    cursor: str | None
    variables: str | None
    columns: list[list[Any]]
    """The columns of events and steps."""
    side_writes: SideRows
    token: int
    was_sent_before: bool = False
    """Whether an earlier attempt was sent, with an unknown outcome."""


async def store_commit(
    database: Database, groups: CommitGroups, handle: ClaimHandle, claim: Claim, commit: Commit
) -> Collection[str]:
    """Store a commit. Returns the topics of the changes, for waiting tasks. Raises `LeaseLost`,
    `StepConflict`, `StaleDocument`, `QueueFull`, `SessionExists` or `UserError`.

    Raises `StoreUnavailable` if the database is unreachable before the commit was sent, or
    afterwards for so long that the outcome is unknown.
    """
    attempt = _prepared(handle, claim, commit)

    async def send(again: bool) -> None:
        attempt.was_sent_before = again
        # A second attempt is not grouped: other commits of a group could delay it, or lose the
        # connection again.
        await _store(database, None if again else groups, attempt)

    await send_until_answered(database, send, lambda why: _unknown_step(why, claim))
    handle.token = attempt.token
    return attempt.side_writes.topics if attempt.side_writes else ()


def _prepared(handle: ClaimHandle, claim: Claim, commit: Commit) -> _Attempt:
    """The commit with all JSON as text; raises `UserError`."""
    session_id, cursor, variables = claim.session_id, commit.patch.cursor, commit.patch.variables
    return _Attempt(
        claim=claim,
        commit=commit,
        handle=handle,
        cursor=None
        if cursor is None
        else json_text(cursor, "the cursor of session {!r}", session_id),
        variables=None
        if variables is None
        else json_text(variables, "`variables` of session {!r}", session_id),
        columns=[
            *event_columns(session_id, commit.events),
            *step_columns(session_id, commit.steps),
        ],
        side_writes=SideRows.prepare(commit),
        token=secrets.randbits(63),
    )


async def _store(database: Database, groups: CommitGroups | None, attempt: _Attempt) -> None:
    side_writes = attempt.side_writes

    async def alone(waits: bool) -> bool:
        async def work(connection: Any) -> bool:
            # All rows are locked in one order before the first write. Two commits that wake each
            # other's sessions would otherwise wait for each other.
            await side_writes.lock(connection, num=attempt.handle.num)
            sql, timeout = (COMMIT, COMMAND_S) if waits else (COMMIT_IF_FREE, ANSWER_S)
            try:
                args = single_arguments(_arguments(attempt))
                stored = await connection.fetchval(sql, *args, timeout=timeout)
            except UNIQUE_VIOLATION as exc:
                raise _step_conflict(attempt) from exc
            if stored is None:
                return False
            await side_writes.store(connection, token=attempt.token)
            return True

        return await (database.transact(work) if side_writes else database.run(work))

    if side_writes or groups is None:
        stored = await alone(True)
    else:
        stored = await groups.store(_arguments(attempt), alone)
    # `_explain` returns false only after it took over a newer token of this same claim, so this
    # ends.
    while not (stored or await _explain(database, attempt)):
        stored = await alone(True)


async def _explain(database: Database, attempt: _Attempt) -> bool:
    """Find out why the last attempt stored nothing: return true if an earlier attempt was stored,
    raise the reason, or return false to try again."""
    claim, handle = attempt.claim, attempt.handle
    owned_by = (handle.num, claim.epoch, to_column(claim.owner))
    found = await database.query(LOOK, *owned_by, repeatable=True)
    if not found:
        raise LeaseLost(claim.session_id)
    token, seq, owned = found[0]
    if token == attempt.token:
        return True
    # The row has a token that is neither the old one nor ours: another owner has committed since.
    # Only the journal can tell whether our earlier attempt came first.
    if attempt.was_sent_before and token != handle.token:
        return await _was_stored(database, attempt)
    if not owned:
        raise LeaseLost(claim.session_id)
    events = attempt.commit.events
    if events and seq != _expected_seq(attempt.commit):
        raise event_conflict(claim.session_id, events[0].seq, events[-1].seq, seq)
    # Another holder of this claim's handle has committed since, and no attempt of ours is in doubt.
    handle.token = token
    return False


async def _was_stored(database: Database, attempt: _Attempt) -> bool:
    """Whether an earlier attempt was stored before the session's new owner committed.

    It was if the journal has one of our events exactly as written, to the microsecond.
    """
    if not attempt.commit.events:
        why = f"the connection to {database.address.shown} was lost, and another owner wrote since"
        raise _unknown_step(why, attempt.claim)
    ours = tuple(column[0] for column in attempt.columns[:9])
    place = (attempt.handle.num, ours[0])
    found = await database.query(_STORED_EVENT, *place, repeatable=True)
    if found and tuple(found[0]) == ours:
        return True
    raise LeaseLost(attempt.claim.session_id)


def _arguments(attempt: _Attempt) -> CommitArguments:
    claim, commit, patch = attempt.claim, attempt.commit, attempt.commit.patch
    row = (
        attempt.handle.num,
        claim.epoch,
        to_column(claim.owner),
        attempt.handle.token,
        attempt.token,
        _expected_seq(commit),
        to_column_or_null(patch.agent),
        patch.status,
        to_column_or_null(patch.outcome),
        to_column_or_null(patch.conclusion),
        attempt.cursor,
        attempt.variables,
        commit.release,
        claim.lease_s,
        commit.seen_wakes,
        len(commit.events),
    )
    return CommitArguments(row, attempt.columns)


def _unknown_step(why: str, claim: Claim) -> OutcomeUnknown:
    return OutcomeUnknown(
        why,
        f"the last step of session {claim.session_id!r} was",
        advice="resume the session, which continues from the stored state",
    )


def _expected_seq(commit: Commit) -> int | None:
    """The `seq` that the row must have before these events; -1, which no row has, if the events are
    not numbered without gaps."""
    events = commit.events
    if not events:
        return None
    first = events[0].seq
    if any(event.seq != first + place for place, event in enumerate(events)):
        return -1
    return first - 1


def _step_conflict(attempt: _Attempt) -> StepConflict:
    keys = list(attempt.commit.steps)
    if len(keys) == 1:
        return step_conflict(attempt.claim.session_id, keys[0])
    return StepConflict(
        f"one of the steps {', '.join(map(repr, keys))} of session {attempt.claim.session_id!r} "
        "is stored already: use the stored result"
    )
