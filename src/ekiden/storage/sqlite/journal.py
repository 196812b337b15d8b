"""The journal in SQLite: group commits, batches, and reads of events, steps and the feed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import compress
from typing import Any, cast

import apsw

from ekiden.core.errors import LeaseLost, QueueFull, StepConflict
from ekiden.core.events import AUDITED, Event
from ekiden.core.values import loads
from ekiden.storage.base import Batch, Claim, Commit, EventFilter, EventPage, Written
from ekiden.storage.chain import HEAD, EventDigest, head_text, link_digest, own_digest
from ekiden.storage.sqlite.connection import TransactionTime, query
from ekiden.storage.sqlite.queues import PreparedPut, prepare_puts, put_messages
from ekiden.storage.sqlite.rows import (
    NO_SESSION,
    Row,
    chunks,
    event_of,
    event_rows,
    flat,
    insert_events,
    insert_rows,
    padded,
    stored_type,
    type_of,
    values_sql,
)
from ekiden.storage.sqlite.sessions import (
    SqliteDocumentWrite,
    SqliteNewSession,
    check_openings,
    open_sessions,
    prepare_documents,
    prepare_openings,
    write_documents,
)
from ekiden.storage.sqlite.settle import (
    SqliteSettle,
    prepare_settles,
    settle_messages,
    wake_sessions,
)
from ekiden.storage.values import (
    check_free_event,
    check_limit,
    collector_paused,
    event_conflict,
    event_page,
    json_text,
    parse_event_cursor,
    parse_feed_cursor,
    prefix_end,
    step_conflict,
)

_EVENT_PAGE = 2000
_WIDTH = 14
"""The number of columns of `PreparedCommit.row`."""
_DIGESTS_SQL = """
    SELECT seq, type, at_us, agent, step, duration_us, details, items, error, digest
    FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?
"""
_INSERT_STEPS = "INSERT INTO steps (session, key, result)"
_EVENTS_SQL = """
    SELECT group_concat(row) FROM (
        SELECT '[' || concat_ws(',', seq, json_quote(type), at_us, json_quote(agent),
            json_quote(step), coalesce(duration_us, 'null'), coalesce(details, 'null'),
            coalesce(items, '[]'), coalesce(error, 'null')) || ']' AS row
        FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT {size:d}
    )
"""
_ITEMS_SQL = _EVENTS_SQL.replace("seq > ?", "seq > ? AND items IS NOT NULL")
_INDEXED_ASSIGNMENTS = (
    "agent = coalesce(v.column6, sessions.agent),",
    """status = iif(v.column7 = 'waiting' AND v.column13 <> sessions.wakes, 'ready',
            coalesce(v.column7, sessions.status)),""",
    """outcome = nullif(coalesce(v.column8, sessions.outcome), ''),
            conclusion = iif(v.column8 IS NULL, sessions.conclusion, v.column14),""",
)
"""Assignments of columns that have an index: agent, status, outcome with conclusion."""
_INDEXED = (
    "(type = 0 OR type = 3 OR type = 4 OR type = 5 OR type = 11 OR type = 'route'"
    " OR type = 'handoff' OR type = 'guardrail' OR type = 'tool_confirmation' OR type = 'inbox')"
)
"""The condition of the index, word for word: so SQLite knows that it may use the index."""
_COLUMNS = (
    "events.session, coalesce(sessions.id, ''), events.seq, type, at_us, events.agent, step,"
    " duration_us, details, items, error"
)
_IS_VISIBLE = f"(sessions.num IS NOT NULL OR events.session = {NO_SESSION})"
"""False for the row that keeps the highest id after its session was deleted."""


class PreparedCommit:
    """A commit as rows, made in the event loop's thread so that invalid JSON fails there."""

    __slots__ = (
        "documents", "events", "num", "openings", "puts", "row", "session_id", "settles", "steps",
        "wakes",
    )  # fmt: skip

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
            commit.seen_wakes,
            patch.conclusion,
        )
        # The row is compared with the first event's number only, so a gap between the events has to
        # be found here.
        if events and events[-1].seq - events[0].seq != len(events) - 1:
            raise event_conflict(claim.session_id, events[0].seq, events[-1].seq, self.row[3] or 0)
        self.events = event_rows(num, session_id, events)
        self.steps = [
            (num, key, json_text(result, "step {!r} of session {!r}", key, session_id))
            for key, result in commit.steps.items()
        ]
        self.documents: Sequence[SqliteDocumentWrite] = ()
        self.puts: Sequence[PreparedPut] = ()
        self.settles: Sequence[SqliteSettle] = ()
        self.openings: Sequence[SqliteNewSession] = ()
        if commit.documents:
            self.documents = prepare_documents(commit.documents, now_us)
        if commit.messages:
            self.puts = prepare_puts(commit.messages)
        if commit.settles:
            self.settles = prepare_settles(commit.settles)
        if commit.openings:
            self.openings = prepare_openings(commit.openings, now_us)
        self.wakes = commit.wakes


class GroupFailed(Exception):
    """A commit of a group was refused; the writer then runs each alone, which shows which one."""


def write_commits(
    db: apsw.Connection, commits: Sequence[PreparedCommit], now: TransactionTime
) -> None:
    """Write the steps of different sessions, inside a transaction that is rolled back on any error.

    A single commit raises `LeaseLost`, `StepConflict`, `StaleDocument`, `QueueFull` or
    `SessionExists`; several commits may raise any error.
    """
    updated = 0
    for chunk in chunks([commit.row for commit in commits]):
        size = padded(len(chunk))
        _, _, _, _, _, agents, statuses, outcomes, *_ = zip(*chunk, strict=True)
        changed = (any(agents), any(statuses), outcomes.count(None) < len(outcomes))
        db.execute(_update_sql(size, changed), (now.ms, *flat(chunk, size), now.ms))
        updated += db.changes()
    # The statement fences: a session whose lease was lost, or that has other events, matches no
    # row. Fewer rows than commits means that one of them was refused.
    if updated != len(commits):
        if len(commits) > 1:
            raise GroupFailed
        raise _refusal(db, commits[0], now.ms)
    insert_events(db, [row for commit in commits for row in commit.events])
    steps = [row for commit in commits for row in commit.steps]
    if steps:
        try:
            insert_rows(db, _INSERT_STEPS, steps)
        except apsw.ConstraintError as exc:
            # For a group the first is only a guess. The writer runs each member alone after any
            # error, and then it is exact.
            raise _stored_step(db, commits[0]) from exc
    for commit in commits:
        if commit.documents:
            write_documents(db, commit.documents)
    _write_messages(db, commits, now)
    for commit in commits:
        if commit.openings:
            check_openings(db, commit.openings)
            open_sessions(db, commit.openings)
    wakes = [session_id for commit in commits for session_id in commit.wakes]
    if wakes:
        wake_sessions(db, wakes, now)


def _write_messages(
    db: apsw.Connection, commits: Sequence[PreparedCommit], now: TransactionTime
) -> None:
    puts = [commit.puts for commit in commits if commit.puts]
    if puts:
        for result in put_messages(db, puts, now):
            if isinstance(result, QueueFull):
                raise result
    settles = [settle for commit in commits for settle in commit.settles]
    if settles:
        settle_messages(db, settles, now)


def read_events(
    db: apsw.Connection, session_id: str, after: int, limit: int | None, with_items: bool
) -> list[Event]:
    """The events above `after`; with `with_items` only those that add or remove items.

    The engine joins many rows to one JSON text: so there is one call without Python's lock and one
    parse, instead of one for each row.
    """
    num = _session_number(db, session_id)
    if num is None:
        return []
    sql = _ITEMS_SQL if with_items else _EVENTS_SQL
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


def read_digests(db: apsw.Connection, session_id: str, after: int, limit: int) -> list[EventDigest]:
    """The digests of the events above `after`."""
    num = _session_number(db, session_id)
    if num is None:
        return []
    return [_digest_of(session_id, *row) for row in query(db, _DIGESTS_SQL, (num, after, limit))]


def _session_number(db: apsw.Connection, session_id: str) -> int | None:
    if not session_id:
        return NO_SESSION
    found = query(db, "SELECT num FROM sessions WHERE id = ?", (session_id,))
    return int(found[0][0]) if found else None


def _digest_of(session_id: str, seq: int, type: int | str, *stored: Any) -> EventDigest:
    at_us, agent, step, duration_us, details, items, error, commit = stored
    name = str(type)
    # Values that no store wrote cannot be parsed; they are used as they are, so the digest differs.
    with suppress(ValueError, TypeError):
        read = loads(error)
        error = read if isinstance(read, str) else error
    with suppress(IndexError):
        name = type_of(type)
    own = own_digest(session_id, seq, name, at_us, agent, step, duration_us, details, items, error)
    return EventDigest(seq, own, commit)


def read_steps(db: apsw.Connection, session_id: str, prefix: str) -> dict[str, Any]:
    """The stored results of steps whose key begins with `prefix`."""
    end = prefix_end(prefix)
    ((text,),) = query(
        db,
        "SELECT group_concat(json_quote(key) || ':' || result) FROM steps"
        " WHERE session = (SELECT num FROM sessions WHERE id = ?) AND key >= ?"
        + ("" if end is None else " AND key < ?"),
        (session_id, prefix) if end is None else (session_id, prefix, end),
    )
    return cast("dict[str, Any]", loads(f"{{{text or ''}}}"))


def _read_page(
    db: apsw.Connection, sql: str, session_id: str, num: int, after: int, size: int
) -> list[Event]:
    ((text,),) = query(db, sql.format(size=size), (num, after))
    return [event_of(session_id, *row) for row in loads(f"[{text or ''}]")]


@cache
def _update_sql(size: int, changed: tuple[bool, bool, bool]) -> str:
    """One statement that fences and updates `size` sessions; a row of nulls matches none.

    `changed` tells which of `_INDEXED_ASSIGNMENTS` are needed: the engine writes to the index of
    every column that a statement assigns, even if the value stays the same.
    """
    return f"""
        UPDATE sessions SET
            seq = coalesce(v.column5, sessions.seq),
            {" ".join(compress(_INDEXED_ASSIGNMENTS, changed))}
            cursor = coalesce(v.column9, sessions.cursor),
            variables = coalesce(v.column10, sessions.variables),
            owner = iif(v.column11 IS NULL, NULL, sessions.owner),
            lease_until = ? + v.column11,
            updated_us = v.column12
        FROM ({values_sql(size, _WIDTH)}) AS v
        WHERE sessions.num = v.column1 AND sessions.epoch = v.column2
            AND sessions.owner = v.column3 AND sessions.lease_until > ?
            AND (v.column4 IS NULL OR sessions.seq = v.column4)
    """


def _refusal(db: apsw.Connection, commit: PreparedCommit, now_ms: int) -> LeaseLost | StepConflict:
    """Why the statement did not update the session's row."""
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


def find_events(
    db: apsw.Connection, where: EventFilter, limit: int, cursor: str | None
) -> EventPage:
    """One page of the matching events, after the event that the cursor names."""
    check_limit(limit)
    sql, values = page_sql(where, limit, cursor)
    rows = query(db, sql, values)
    page = rows[:limit]
    return event_page(
        [_event(row) for row in page], [row[0] for row in page], more=len(rows) > limit
    )


def page_sql(where: EventFilter, limit: int, cursor: str | None) -> tuple[str, list[str | int]]:
    """The statement for a page and one more event, with its values.

    `LEFT JOIN` makes the engine begin with the index of events, not with the sessions.
    """
    conditions = [_IS_VISIBLE]
    values: list[str | int] = []
    if where.types is not None:
        # A type may be stored as a number or as a name: look for both.
        types = sorted({*map(stored_type, where.types), *where.types}, key=str)
        conditions.append(f"type IN ({','.join('?' * len(types))})")
        values += types
    if where.session_id == "":
        conditions.append(f"events.session = {NO_SESSION}")
    elif where.session_id is not None:
        conditions.append("events.session = (SELECT num FROM sessions WHERE id = ?)")
        values.append(where.session_id)
    elif where.types is not None and AUDITED.issuperset(where.types):
        conditions.append(_INDEXED)
    if where.since_us is not None:
        conditions.append("at_us >= ?")
        values.append(where.since_us)
    if where.until_us is not None:
        conditions.append("at_us < ?")
        values.append(where.until_us)
    if cursor is not None:
        sign = "<" if where.newest_first else ">"
        conditions.append(f"(at_us, events.session, events.seq) {sign} (?, ?, ?)")
        values += parse_event_cursor(cursor)
    direction = "DESC" if where.newest_first else "ASC"
    return (
        f"SELECT {_COLUMNS} FROM events LEFT JOIN sessions ON sessions.num = events.session"
        f" WHERE {' AND '.join(conditions)}"
        f" ORDER BY at_us {direction}, events.session {direction}, events.seq {direction}"
        f" LIMIT {limit + 1:d}",
        values,
    )


def read_feed(db: apsw.Connection, after: str | None, limit: int) -> EventPage:
    """The events after the cursor, which is the `id` of an event. There is one writer at a time, so
    ids are in the order of commits."""
    check_limit(limit)
    rows = query(
        db,
        f"SELECT {_COLUMNS}, events.id FROM events LEFT JOIN sessions"
        " ON sessions.num = events.session"
        f" WHERE events.id > ? AND {_IS_VISIBLE} ORDER BY events.id LIMIT {limit:d}",
        (0 if after is None else parse_feed_cursor(after),),
    )
    cursors = [str(row[-1]) for row in rows]
    return EventPage(
        events=[_event(row[:-1]) for row in rows],
        cursors=cursors,
        next_cursor=cursors[-1] if cursors else after,
    )


def read_feed_end(db: apsw.Connection) -> str:
    """The cursor after the last event."""
    ((last,),) = query(db, "SELECT coalesce(max(id), 0) FROM events")
    return str(last)


def _event(row: tuple[Any, ...]) -> Event:
    _, session_id, seq, type, at_us, agent, step, duration_us, details, items, error = row
    return event_of(
        session_id,
        seq,
        type,
        at_us,
        agent,
        step,
        duration_us,
        None if details is None else loads(details),
        () if items is None else loads(items),
        None if error is None else loads(error),
    )


class PreparedBatch:
    """A batch as rows, made in the event loop's thread so that invalid JSON fails there."""

    __slots__ = ("documents", "events", "now_us", "openings", "puts", "settles", "wakes")

    def __init__(self, batch: Batch, now_us: int) -> None:
        for event in batch.events:
            check_free_event(event)
        self.documents: Sequence[SqliteDocumentWrite] = prepare_documents(batch.documents, now_us)
        self.puts: Sequence[PreparedPut] = prepare_puts(batch.messages)
        self.settles: Sequence[SqliteSettle] = prepare_settles(batch.settles)
        self.openings: Sequence[SqliteNewSession] = prepare_openings(batch.openings, now_us)
        self.wakes = batch.wakes
        self.events = event_rows(NO_SESSION, "", batch.events)
        self.now_us = now_us


def write_batch(db: apsw.Connection, batch: PreparedBatch, now: TransactionTime) -> Written:
    """Write the batch inside a transaction. Raises `SessionExists` before anything is written;
    `StaleDocument` and `QueueFull` may come later, so the transaction must be rolled back."""
    check_openings(db, batch.openings)
    if batch.documents:
        write_documents(db, batch.documents)
    receipts: Sequence[Any] = ()
    if batch.puts:
        (result,) = put_messages(db, [batch.puts], now)
        if isinstance(result, QueueFull):
            raise result
        receipts = result
    settled = settle_messages(db, batch.settles, now) if batch.settles else ()
    open_sessions(db, batch.openings)
    if batch.wakes:
        wake_sessions(db, batch.wakes, now)
    if batch.events:
        _insert_free_events(db, batch.events, batch.now_us)
    return Written(receipts=receipts, settled=settled)


def _insert_free_events(db: apsw.Connection, rows: Sequence[Row], now_us: int) -> None:
    """Store events outside sessions, with their numbers and a digest that covers the previous
    one."""
    number, _, content = rows[-1][-1].partition(":")
    before = query(db, "SELECT body FROM documents WHERE collection = ? AND key = ?", HEAD)
    digest = link_digest(before[0][0] if before else "", content)
    db.execute(
        "INSERT INTO documents (collection, key, version, updated_us, body) VALUES (?, ?, 1, ?, ?)"
        " ON CONFLICT (collection, key) DO UPDATE SET version = version + 1,"
        " updated_us = excluded.updated_us, body = excluded.body",
        (*HEAD, now_us, head_text(digest)),
    )
    rows = [*rows[:-1], (*rows[-1][:-1], f"{number}:{digest}")]
    ((last,),) = query(
        db, "SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", (NO_SESSION,)
    )
    insert_events(db, [(NO_SESSION, seq, *row[2:]) for seq, row in enumerate(rows, start=last + 1)])
