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

_IS_LATE = "state in ('timed_out', 'cancelled') and new_state in ('answered', 'failed')"
# Rows are locked before any is changed: sessions first, each kind in the order of its numbers.
_SETTLE = f"""
with sleepers as materialized (
    select from sessions where id in (
        select session_id from messages where key = any($1::text[]) and state = 'open'
    ) order by num for no key update
), held as materialized (
    select from messages where key = any($1) and (select count(*) from sleepers) >= 0
    order by id for update
), wanted as (
    select * from unnest($1, $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
        as wanted (its_key, new_state, new_answer, its_id, its_owner, its_attempts)
), gone as (
    delete from messages using wanted
    where key = its_key and new_state is null and (select count(*) from held) >= 0
        and (its_id is null or (id = its_id and owner = its_owner and attempts = its_attempts))
    returning its_key
), done as (
    update messages set
        state = case when state = 'open' then new_state else 'late' end,
        answer = new_answer,
        {SETTLED_COLUMNS}
    from wanted
    where key = its_key and (state = 'open' or {_IS_LATE})
        and new_state is not null and (select count(*) from held) >= 0
        and (its_id is null or (id = its_id and owner = its_owner and attempts = its_attempts))
    returning its_key, state, session_id
), woken as ({wake_sql("done where state <> 'late'")}
)
select its_key, case when state = 'late' then 'late' else 'settled' end from done
union all select its_key, 'settled' from gone"""
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
    """What comes of each; one statement unless a key is there twice."""
    results: list[Settled] = ["no"] * len(settles)
    left = list(enumerate(settles))
    while left:
        # A statement changes a row once: what is told of a message a second time comes after.
        first = {each.settle.key: place for place, each in reversed(left)}
        now = [(place, each) for place, each in left if first[each.settle.key] == place]
        left = [(place, each) for place, each in left if first[each.settle.key] != place]
        done = dict(await connection.fetch(_SETTLE, *_columns([each for _, each in now])))
        for place, each in now:
            results[place] = done.get(to_column(each.settle.key), "no")
    return results


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


def _columns(settles: Sequence[PreparedSettle]) -> list[list[Any]]:
    deliveries = [each.settle.by for each in settles]
    return [
        [to_column(each.settle.key) for each in settles],
        [None if each.settle.forget else each.settle.state for each in settles],
        [each.answer for each in settles],
        [None if by is None else by.id for by in deliveries],
        [None if by is None else to_column(by.owner) for by in deliveries],
        [None if by is None else by.attempts for by in deliveries],
    ]
