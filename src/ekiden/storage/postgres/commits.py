"""Storing one step of a session exactly once, even if the connection is lost.

A commit carries the token of the previous commit and its own. It takes effect only while the
session's row has the previous token, and then writes its own. So it can be sent again after a lost
connection: if the first copy was stored, the second finds its own token, which is the answer;
otherwise the second is stored, and the first copy, should it still arrive, has no effect.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import LeaseLost, StepConflict
from ekiden.storage.base import Claim, Commit
from ekiden.storage.postgres.batches import SideWrites
from ekiden.storage.postgres.connection.database import (
    ANSWER_S,
    COMMAND_S,
    Database,
    send_until_answered,
)
from ekiden.storage.postgres.connection.errors import UNIQUE_VIOLATION, OutcomeUnknown
from ekiden.storage.postgres.group_commit import (
    COMMIT,
    COMMIT_IF_FREE,
    LOOK,
    CommitArguments,
    CommitGroups,
    single_arguments,
)
from ekiden.storage.postgres.rows import (
    EVENT,
    ClaimHandle,
    event_columns,
    step_columns,
    to_column,
    to_column_or_null,
)
from ekiden.storage.values import event_conflict, json_text, step_conflict

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
    side_writes: SideWrites
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

    await send_until_answered(database, send, lambda why: _unknown(why, claim))
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
        side_writes=SideWrites.prepare(commit),
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
        raise _unknown(why, attempt.claim)
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
        attempt.cursor,
        attempt.variables,
        commit.release,
        claim.lease_s,
        commit.seen_wakes,
        len(commit.events),
    )
    return CommitArguments(row, attempt.columns)


def _unknown(why: str, claim: Claim) -> OutcomeUnknown:
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
