"""Bringing messages to their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ekiden.storage.base import MessageSettle, Settled
from ekiden.storage.postgres.text import to_column
from ekiden.storage.postgres.wakes import wake_sql
from ekiden.storage.values import check_settle, is_late, json_text

SETTLED_COLUMNS = "settled_at = clock_timestamp(), due_at = 'infinity', dedup_key = null"
"""What changes in a message with its end, whichever it is."""

_LAST = "($2::bigint is null or (id = $2 and owner = $3 and attempts = $4))"
# The session's row is locked before the message's, as everywhere.
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


class PreparedSettle(NamedTuple):
    """A settlement with its answer as JSON text."""

    settle: MessageSettle
    answer: str | None

    @property
    def wakes(self) -> bool:
        """Whether a session may be woken by it."""
        return not self.settle.forget


def prepare_settles(settles: Sequence[MessageSettle]) -> Sequence[PreparedSettle]:
    """The settlements; `UserError` for an answer that is not JSON, or a state that is no end."""
    for settle in settles:
        check_settle(settle)
    return [
        PreparedSettle(
            settle,
            None
            if settle.answer is None
            else json_text(settle.answer, "the answer to message {!r}", settle.key),
        )
        for settle in settles
    ]


async def store_settles(connection: Any, settles: Sequence[PreparedSettle]) -> list[Settled]:
    """What comes of each: a statement for each, so that several need a transaction.

    They are done in the order of their keys, and those of one key in their own order, so that two
    who settle the same messages do not wait for each other.
    """
    results: list[Settled] = ["no"] * len(settles)
    for place in sorted(range(len(settles)), key=lambda place: settles[place].settle.key):
        results[place] = await _store(connection, settles[place]) or "no"
    return results


async def _store(connection: Any, prepared: PreparedSettle) -> Settled | None:
    settle, by = prepared.settle, prepared.settle.by
    delivery = (None, None, None) if by is None else (by.id, to_column(by.owner), by.attempts)
    args: list[Any] = [to_column(settle.key), *delivery]
    if settle.forget:
        result: Settled | None = await connection.fetchval(_FORGET, *args)
    else:
        result = await connection.fetchval(_SETTLE, *args, settle.state, prepared.answer)
    return result


async def repeated_settles(connection: Any, settles: Sequence[PreparedSettle]) -> list[Settled]:
    """What comes of settlements that are sent again, because nobody knows whether the first copy
    was stored: a message that is as that copy would have left it was settled by it."""
    results = await store_settles(connection, settles)
    keys = [to_column(each.settle.key) for each in settles]
    found = {
        row["key"]: (row["state"], row["answer"]) for row in await connection.fetch(_LOOK, keys)
    }
    return [
        _by_first_copy(each, *found.get(key, (None, None))) if result == "no" else result
        for each, key, result in zip(settles, keys, results, strict=True)
    ]


def _by_first_copy(prepared: PreparedSettle, state: str | None, answer: str | None) -> Settled:
    wanted = prepared.settle.state
    if prepared.settle.forget:
        return "settled" if state is None else "no"
    if state == wanted:
        return "settled" if answer == prepared.answer else "no"
    if state == "late" and not is_late("timed_out", wanted):
        # An answer came after we had given up.
        return "settled" if is_late(wanted, "answered") else "no"
    return "late" if state == "late" and answer == prepared.answer else "no"
