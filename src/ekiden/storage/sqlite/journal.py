"""Commits, many sessions at once, and reading events and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import apsw

from ekiden.core.errors import LeaseLost, StepConflict
from ekiden.core.events import Event, EventType
from ekiden.core.jsonio import loads
from ekiden.storage.base import Claim, Commit
from ekiden.storage.bulk import collector_paused
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.documents import PreparedDocument, prepare_documents, write_documents
from ekiden.storage.sqlite.queues import PreparedMessage, prepare_messages, put_messages
from ekiden.storage.values import event_conflict, json_text, prefix_end, step_conflict

_TYPES: tuple[EventType, ...] = (
    "route",
    "llm_call",
    "tool_call",
    "handoff",
    "guardrail",
    "tool_confirmation",
    "agent_start",
    "agent_complete",
    "agent_error",
    "message",
    "task",
    "inbox",
)
"""Stored as their places here, which format 1 fixes; a type that is not here is stored by name."""

_CODES: Mapping[str, int] = {name: code for code, name in enumerate(_TYPES)}

_EVENT_PAGE = 2000
_ROWS_AT_ONCE = 128


class PreparedCommit:
    """A commit as rows, made on the event loop's thread so that bad JSON fails there."""

    __slots__ = ("documents", "events", "messages", "num", "row", "session_id", "steps")

    def __init__(self, claim: Claim, commit: Commit, now_us: int) -> None:
        events, patch = commit.events, commit.patch
        num = self.num = claim.key
        self.session_id = claim.session_id
        session_id, cursor, variables = claim.session_id, patch.cursor, patch.variables
        self.row = (
            num,
            claim.epoch,
            claim.owner,
            events[0].seq - 1 if events else None,
            events[-1].seq if events else None,
            patch.agent,
            patch.status,
            patch.outcome,
            None if cursor is None else json_text(cursor, "the cursor of session {!r}", session_id),
            None
            if variables is None
            else json_text(variables, "`variables` of session {!r}", session_id),
            None if commit.release else int(claim.lease_s * 1000),
            now_us,
        )
        if events and events[-1].seq - events[0].seq != len(events) - 1:
            raise event_conflict(claim.session_id, events[0].seq, events[-1].seq, self.row[3] or 0)
        self.events = [_event_row(num, event) for event in events]
        self.steps = [
            (num, key, json_text(result, "step {!r} of session {!r}", key, session_id))
            for key, result in commit.steps.items()
        ]
        self.documents: Sequence[PreparedDocument] = prepare_documents(commit.documents, now_us)
        self.messages: Sequence[PreparedMessage] = prepare_messages(commit.messages)


class SpoiltGroup(Exception):
    """Some commit of a group was refused; which one shows when each is tried alone."""


def write_commits(db: apsw.Connection, commits: Sequence[PreparedCommit], now_ms: int) -> None:
    """Write the steps of different sessions, inside a transaction that is undone on any error.

    Of one commit it raises `LeaseLost`, `StepConflict`, `StaleDocument`, `QueueFull`; of several
    anything.
    """
    updated = 0
    for chunk in _chunks([commit.row for commit in commits]):
        size = _padded(len(chunk))
        db.execute(_update_sql(size), (now_ms, *_flat(chunk, size), now_ms))
        updated += db.changes()
    if updated != len(commits):
        if len(commits) > 1:
            raise SpoiltGroup
        raise _refusal(db, commits[0], now_ms)
    _insert(db, _INSERT_EVENTS, [row for commit in commits for row in commit.events])
    steps = [row for commit in commits for row in commit.steps]
    if steps:
        try:
            _insert(db, _INSERT_STEPS, steps)
        except apsw.ConstraintError as exc:
            raise _stored_step(db, commits[0]) from exc
    for commit in commits:
        if commit.documents:
            write_documents(db, commit.documents)
        if commit.messages:
            put_messages(db, commit.messages, now_ms)


def read_events(
    db: apsw.Connection, session_id: str, after: int, limit: int | None, with_items: bool
) -> list[Event]:
    """The events above `after`; those that carry items if only they are wanted.

    The engine joins many rows to one JSON text: one step outside of Python's lock and one parse,
    instead of one for each row.
    """
    found = query(db, "SELECT num FROM sessions WHERE id = ?", (session_id,))
    if not found:
        return []
    num, sql = found[0][0], _ITEMS_SQL if with_items else _EVENTS_SQL
    size = _EVENT_PAGE if limit is None else min(_EVENT_PAGE, limit)
    events = _read_page(db, sql, session_id, num, after, size)
    if len(events) < _EVENT_PAGE:
        return events
    with collector_paused():
        while page := _read_page(
            db,
            sql,
            session_id,
            num,
            events[-1].seq,
            _EVENT_PAGE if limit is None else min(_EVENT_PAGE, limit - len(events)),
        ):
            events += page
    return events


def read_steps(db: apsw.Connection, session_id: str, prefix: str) -> dict[str, Any]:
    """The remembered results whose key begins with `prefix`."""
    end = prefix_end(prefix)
    ((text,),) = query(
        db,
        "SELECT group_concat(json_quote(key) || ':' || result) FROM steps"
        " WHERE session = (SELECT num FROM sessions WHERE id = ?) AND key >= ?"
        + ("" if end is None else " AND key < ?"),
        (session_id, prefix) if end is None else (session_id, prefix, end),
    )
    return cast("dict[str, Any]", loads(f"{{{text or ''}}}"))


_INSERT_EVENTS = (
    "INSERT INTO events"
    " (session, seq, type, at_us, agent, step, duration_us, details, items, error)"
)
_INSERT_STEPS = "INSERT INTO steps (session, key, result)"
_EVENTS_SQL = """
    SELECT group_concat(row) FROM (
        SELECT '[' || concat_ws(',', seq, json_quote(type), at_us, json_quote(agent),
            json_quote(step), coalesce(duration_us, 'null'), coalesce(details, 'null'),
            coalesce(items, '[]'), coalesce(error, 'null')) || ']' AS row
        FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?
    )
"""
_ITEMS_SQL = _EVENTS_SQL.replace("seq > ?", "seq > ? AND items IS NOT NULL")


def stored_type(type: EventType) -> int | str:
    """An event's type as it stands in the table."""
    return _CODES.get(type, type)


def type_of(stored: int | str) -> EventType:
    """The inverse of `stored_type`."""
    return _TYPES[stored] if isinstance(stored, int) else cast("EventType", stored)


def _event_row(num: int, event: Event) -> tuple[Any, ...]:
    details, items, error = event.details, event.items, event.error
    return (
        num,
        event.seq,
        _CODES.get(event.type, event.type),
        event.at_us,
        event.agent,
        event.step,
        event.duration_us,
        None if details is None else json_text(details, "`details` of {!r}", event),
        json_text(items, "`items` of {!r}", event) if event.speaks else None,
        None if error is None else json_text(error, "`error` of {!r}", event),
    )


def _read_page(
    db: apsw.Connection, sql: str, session_id: str, num: int, after: int, size: int
) -> list[Event]:
    ((text,),) = query(db, sql, (num, after, size))
    return [_event(session_id, row) for row in loads(f"[{text or ''}]")]


def _event(session_id: str, row: Sequence[Any]) -> Event:
    seq, type, at_us, agent, step, duration_us, details, items, error = row
    return Event(
        session_id=session_id,
        seq=seq,
        type=type_of(type),
        at_us=at_us,
        agent=agent,
        step=step,
        duration_us=duration_us,
        details=details,
        items=tuple(items),
        error=error,
    )


@cache
def _update_sql(size: int) -> str:
    """One statement that fences and updates `size` sessions; a row of nulls matches none."""
    values = ",".join(["(?,?,?,?,?,?,?,?,?,?,?,?)"] * size)
    return f"""
        UPDATE sessions SET
            seq = coalesce(v.column5, sessions.seq),
            agent = coalesce(v.column6, sessions.agent),
            status = coalesce(v.column7, sessions.status),
            outcome = nullif(coalesce(v.column8, sessions.outcome), ''),
            cursor = coalesce(v.column9, sessions.cursor),
            variables = coalesce(v.column10, sessions.variables),
            owner = iif(v.column11 IS NULL, NULL, sessions.owner),
            lease_until = ? + v.column11,
            updated_us = v.column12
        FROM (VALUES {values}) AS v
        WHERE sessions.num = v.column1 AND sessions.epoch = v.column2
            AND sessions.owner = v.column3 AND sessions.lease_until > ?
            AND (v.column4 IS NULL OR sessions.seq = v.column4)
    """


def _insert(db: apsw.Connection, insert: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert the rows with few statements; the padding of nulls is left out."""
    for chunk in _chunks(rows):
        size = _padded(len(chunk))
        db.execute(_insert_sql(insert, size, len(chunk[0])), _flat(chunk, size))


@cache
def _insert_sql(insert: str, size: int, width: int) -> str:
    values = ",".join([f"({','.join('?' * width)})"] * size)
    return f"{insert} SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"


def _chunks(rows: Sequence[tuple[Any, ...]]) -> list[Sequence[tuple[Any, ...]]]:
    return [rows[at : at + _ROWS_AT_ONCE] for at in range(0, len(rows), _ROWS_AT_ONCE)]


def _padded(count: int) -> int:
    """The next power of two: few different statements, all of which stay prepared."""
    return 1 << (count - 1).bit_length()


def _flat(rows: Sequence[tuple[Any, ...]], size: int) -> list[Any]:
    values = [value for row in rows for value in row]
    values += [None] * ((size - len(rows)) * len(rows[0]))
    return values


def _refusal(db: apsw.Connection, commit: PreparedCommit, now_ms: int) -> LeaseLost | StepConflict:
    """Why the row did not take the commit."""
    num, epoch, owner, before, last = commit.row[:5]
    found = query(
        db,
        "SELECT seq FROM sessions WHERE num = ? AND epoch = ? AND owner = ? AND lease_until > ?",
        (num, epoch, owner, now_ms),
    )
    if not found:
        return LeaseLost(commit.session_id)
    return event_conflict(commit.session_id, (before or 0) + 1, last or 0, found[0][0])


def _stored_step(db: apsw.Connection, commit: PreparedCommit) -> StepConflict:
    keys = [key for _, key, _ in commit.steps]
    marks = ",".join("?" * len(keys))
    found = query(
        db, f"SELECT key FROM steps WHERE session = ? AND key IN ({marks})", (commit.num, *keys)
    )
    return step_conflict(commit.session_id, found[0][0] if found else keys[0])
