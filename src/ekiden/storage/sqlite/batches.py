"""Documents in SQLite, and batches: new sessions, wakes, events outside sessions, other writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from ekiden.core.errors import QueueFull, SessionExists, StaleDocument
from ekiden.core.values import loads
from ekiden.storage.base import Batch, Document, DocumentWrite, SessionOpening, Written
from ekiden.storage.chain import HEAD, head_text, link_digest
from ekiden.storage.sqlite.connection import TransactionTime, query
from ekiden.storage.sqlite.queues import PreparedPut, prepare_puts, put_messages
from ekiden.storage.sqlite.rows import NO_SESSION, Row, event_rows, insert_events
from ekiden.storage.sqlite.sessions import meta_text
from ekiden.storage.sqlite.settle import (
    SqliteSettle,
    prepare_settles,
    settle_messages,
    wake_sessions,
)
from ekiden.storage.values import check_free_event, check_numbers, json_text, prefix_end


class SqliteDocumentWrite(NamedTuple):
    """A write with its body as JSON text."""

    collection: str
    key: str
    body: str | None
    expected_version: int | None
    now_us: int


def prepare_documents(
    writes: Sequence[DocumentWrite], now_us: int
) -> Sequence[SqliteDocumentWrite]:
    """The writes as rows. Raises `UserError` for bodies that are not JSON."""
    return [
        SqliteDocumentWrite(
            write.collection,
            write.key,
            None
            if write.body is None
            else json_text(write.body, "document {}/{}", write.collection, write.key),
            write.expected_version,
            now_us,
        )
        for write in writes
    ]


def write_documents(db: apsw.Connection, writes: Sequence[SqliteDocumentWrite]) -> None:
    """Write the documents in order; `StaleDocument` may come after some were written."""
    for write in writes:
        if write.expected_version is not None:
            _check_version(db, write, write.expected_version)
        if write.body is None:
            db.execute(
                "DELETE FROM documents WHERE collection = ? AND key = ?",
                (write.collection, write.key),
            )
        else:
            db.execute(
                "INSERT INTO documents (collection, key, version, updated_us, body)"
                " VALUES (?, ?, 1, ?, ?) ON CONFLICT (collection, key) DO UPDATE SET"
                " version = version + 1, updated_us = excluded.updated_us, body = excluded.body",
                (write.collection, write.key, write.now_us, write.body),
            )


def read_document(db: apsw.Connection, collection: str, key: str) -> Document | None:
    """The document, or `None`."""
    found = query(
        db,
        "SELECT key, body, version, updated_us FROM documents WHERE collection = ? AND key = ?",
        (collection, key),
    )
    return _document(collection, found[0]) if found else None


def read_documents(
    db: apsw.Connection, collection: str, prefix: str, after: str, limit: int
) -> list[Document]:
    """Documents with keys above `after`, ordered by key."""
    end = prefix_end(prefix)
    found = query(
        db,
        "SELECT key, body, version, updated_us FROM documents"
        " WHERE collection = ? AND key >= ? AND key > ?"
        + ("" if end is None else " AND key < ?")
        + f" ORDER BY key LIMIT {limit:d}",
        (collection, prefix, after, *(() if end is None else (end,))),
    )
    return [_document(collection, row) for row in found]


def _check_version(db: apsw.Connection, write: SqliteDocumentWrite, expected: int) -> None:
    rows = query(
        db,
        "SELECT version FROM documents WHERE collection = ? AND key = ?",
        (write.collection, write.key),
    )
    found = int(rows[0][0]) if rows else 0
    if found != expected:
        raise StaleDocument(write.collection, write.key, expected=expected, found=found)


def _document(collection: str, row: tuple[Any, ...]) -> Document:
    key, body, version, updated_us = row
    return Document(
        collection=collection,
        key=key,
        body=loads(body),
        version=version,
        updated_at_us=updated_us,
    )


class SqliteNewSession(NamedTuple):
    """A session to be created, as rows."""

    row: Row
    """Id, agent, status, user, meta, priority, cursor, variables, number of the last event,
    creation time, time of the last change."""
    events: Sequence[Row]
    """Rows of `event_rows`, with `NO_SESSION` for the number that the session will get."""


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


def prepare_openings(openings: Sequence[SessionOpening], now_us: int) -> list[SqliteNewSession]:
    """The sessions as rows. Raises `UserError` or `StepConflict`."""
    return [_prepare_opening(opening, now_us) for opening in openings]


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


def check_openings(db: apsw.Connection, openings: Sequence[SqliteNewSession]) -> None:
    """Raise `SessionExists` if an id is taken, or occurs twice."""
    seen: set[str] = set()
    for opening in openings:
        session_id = opening.row[0]
        if session_id in seen or query(db, "SELECT 1 FROM sessions WHERE id = ?", (session_id,)):
            raise SessionExists(session_id)
        seen.add(session_id)


def open_sessions(db: apsw.Connection, openings: Sequence[SqliteNewSession]) -> None:
    """Create sessions whose ids are free, with their events."""
    for opening in openings:
        db.execute(
            "INSERT INTO sessions (id, agent, status, user_id, meta, priority, cursor, variables,"
            " seq, created_us, updated_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            opening.row,
        )
        num = db.last_insert_rowid()
        insert_events(db, [(num, *row[1:]) for row in opening.events])


def _prepare_opening(opening: SessionOpening, now_us: int) -> SqliteNewSession:
    new, events = opening.new, opening.events
    if events:
        check_numbers(new.id, 0, events)
    return SqliteNewSession(
        (
            new.id,
            new.agent,
            new.status,
            new.user_id,
            meta_text(new),
            new.priority,
            json_text(opening.cursor, "the cursor of session {!r}", new.id)
            if opening.cursor
            else None,
            json_text(opening.variables, "`variables` of session {!r}", new.id)
            if opening.variables
            else None,
            len(events),
            now_us,
            now_us,
        ),
        event_rows(NO_SESSION, new.id, events),
    )


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
