"""Settling messages in SQLite, and waking the sessions that wait for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import apsw

from ekiden.core.values import dumps
from ekiden.storage.base import MessageSettle, MessageState, Settled
from ekiden.storage.sqlite.connection import TransactionTime, query
from ekiden.storage.sqlite.rows import chunks, flat, padded, values_sql
from ekiden.storage.values import check_settle, is_late, json_text


def wake_sessions(db: apsw.Connection, session_ids: Iterable[str], now: TransactionTime) -> None:
    """Wake each session as often as it is named; ids of missing sessions are ignored."""
    for chunk in chunks(list(Counter(session_ids).items())):
        size = padded(len(chunk))
        db.execute(_wake_sql(size), (now.wall_us, *flat(chunk, size)))


@cache
def _wake_sql(size: int) -> str:
    return f"""
        UPDATE sessions SET
            wakes = wakes + v.column2,
            updated_us = iif(status = 'waiting', ?, updated_us),
            status = iif(status = 'waiting', 'ready', status)
        FROM ({values_sql(size, 2)}) AS v WHERE sessions.id = v.column1
    """


class SqliteSettle(NamedTuple):
    """A settlement with its answer as JSON text."""

    key: str
    state: MessageState
    answer: str | None
    id: int | None
    owner: str | None
    attempts: int | None
    forget: bool


def prepare_settles(settles: Sequence[MessageSettle]) -> list[SqliteSettle]:
    """The settlements as rows. Raises `UserError` for answers that are not JSON and invalid
    states."""
    prepared = []
    for settle in settles:
        check_settle(settle)
        answer, by = settle.answer, settle.by
        if answer is not None:
            answer = json_text(answer, "the answer to message {!r}", settle.key)
        delivery: tuple[int | None, str | None, int | None] = (None, None, None)
        if by is not None:
            delivery = (by.id, by.owner, by.attempts)
        prepared.append(SqliteSettle(settle.key, settle.state, answer, *delivery, settle.forget))
    return prepared


def settle_messages(
    db: apsw.Connection, settles: Sequence[SqliteSettle], now: TransactionTime
) -> list[Settled]:
    """Settle the messages in order, and wake their sessions.

    A few statements make the first settlement of all open messages; only the remaining
    settlements take a statement each.
    """
    first: dict[str, int] = {}
    for number, settle in enumerate(settles):
        if settle.key not in first:
            # -1 keeps later settlements of the same key out of the common statement: they have to
            # come after this one.
            first[settle.key] = number if not settle.forget else -1
    results: list[Settled] = ["no"] * len(settles)
    done: set[int] = set()
    woken: list[str] = []
    for chunk in chunks([settles[number] for number in first.values() if number >= 0]):
        size = padded(len(chunk))
        for key, session_id in query(
            db, _settle_sql(size), (now.us, *flat([row[:6] for row in chunk], size))
        ):
            results[first[key]] = "settled"
            done.add(first[key])
            if session_id is not None:
                woken.append(session_id)
    if len(done) < len(settles):
        for number, settle in enumerate(settles):
            if number not in done:
                results[number] = _settle_one(db, settle, now, woken)
    if woken:
        wake_sessions(db, woken, now)
    return results


@cache
def _settle_sql(size: int) -> str:
    if size == 1:  # The same values in the same order; a table of one row would cost a third.
        return """
            UPDATE messages SET state = ?3, answer = ?4, settled_us = ?1, dedup_key = NULL
            WHERE key = ?2 AND state = 'open'
                AND (?5 IS NULL OR (id = ?5 AND owner = ?6 AND attempts = ?7))
            RETURNING key, session_id
        """
    return f"""
        UPDATE messages SET state = v.column2, answer = v.column3, settled_us = ?,
            dedup_key = NULL
        FROM ({values_sql(size, 6)}) AS v
        WHERE messages.key = v.column1 AND messages.state = 'open' AND (v.column4 IS NULL
            OR (messages.id = v.column4 AND owner = v.column5 AND attempts = v.column6))
        RETURNING key, session_id
    """


def _settle_one(
    db: apsw.Connection, settle: SqliteSettle, now: TransactionTime, woken: list[str]
) -> Settled:
    """Settle one message in any state; a session to wake is added to `woken`."""
    if settle.forget:
        db.execute(
            "DELETE FROM messages"
            " WHERE key = ?1 AND (?2 IS NULL OR (id = ?2 AND owner = ?3 AND attempts = ?4))",
            (settle.key, settle.id, settle.owner, settle.attempts),
        )
        return "settled" if db.changes() else "no"
    found = query(
        db,
        "SELECT id, state, session_id FROM messages"
        " WHERE key = ?1 AND (?2 IS NULL OR (id = ?2 AND owner = ?3 AND attempts = ?4))",
        (settle.key, settle.id, settle.owner, settle.attempts),
    )
    if not found:
        return "no"
    message_id, state, session_id = found[0]
    # The first end counts. An answer to an expired question is kept as `late` for the audit, but
    # wakes no session.
    if state != "open" and not is_late(state, settle.state):
        return "no"
    db.execute(
        "UPDATE messages SET state = ?, answer = ?, settled_us = ?, dedup_key = NULL WHERE id = ?",
        ("late" if state != "open" else settle.state, settle.answer, now.us, message_id),
    )
    if state != "open":
        return "late"
    if session_id is not None:
        woken.append(session_id)
    return "settled"


def requeue_messages(db: apsw.Connection, keys: Collection[str], now: TransactionTime) -> int:
    """Open `dead` and `expired` messages again."""
    db.execute(
        "UPDATE messages SET state = 'open', answer = NULL, settled_us = NULL, attempts = 0,"
        " owner = NULL, due_ms = ?, expires_ms = NULL, waiter = NULL"
        " WHERE key IN (SELECT value FROM json_each(?)) AND state IN ('dead', 'expired')",
        (now.ms, dumps(list(keys))),
    )
    return db.changes()


def prune_messages(db: apsw.Connection, before_us: int, limit: int) -> int:
    """Remove messages that were settled before this time, oldest first."""
    db.execute(
        "DELETE FROM messages WHERE id IN"
        " (SELECT id FROM messages WHERE settled_us < ? ORDER BY settled_us"
        f" LIMIT {max(limit, 0):d})",
        (before_us,),
    )
    return db.changes()
