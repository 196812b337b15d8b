"""Sessions, leases and documents in SQLite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, get_args

import apsw

from ekiden.core.errors import SessionBusy, SessionExists, SessionNotFound, StaleDocument
from ekiden.core.values import dumps, is_dead, loads
from ekiden.storage.base import (
    Claim,
    Document,
    DocumentWrite,
    NewSession,
    SessionFilter,
    SessionOpening,
    SessionPage,
    SessionRow,
    SessionStatus,
)
from ekiden.storage.records import USUAL_CONCLUSION, check_priority, new_row
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.rows import NO_SESSION, Row, event_rows, insert_events
from ekiden.storage.timers import MOST_CHECKED
from ekiden.storage.values import (
    check_numbers,
    check_session_id,
    json_text,
    parse_cursor,
    prefix_end,
)

_COLUMNS = (
    "num, id, agent, status, outcome, conclusion, user_id, meta, cursor, variables, seq, epoch,"
    " owner, lease_until, created_us, updated_us, wakes, priority"
)
_INSERT = (
    "INSERT INTO sessions (id, agent, status, user_id, meta, priority, epoch, owner, lease_until,"
    " created_us, updated_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_TAKE = "UPDATE sessions SET epoch = epoch + 1, owner = ?, lease_until = ?"
_USUAL_OUTCOME = "done"
_FREE = "(lease_until IS NULL OR lease_until <= ?)"


def create_session(db: apsw.Connection, new: NewSession, meta: str | None, now_us: int) -> None:
    """Insert the row. Raises `SessionExists`."""
    db.execute(_INSERT, (*_fixed(new, meta), 0, None, None, now_us, now_us))
    if db.changes() == 0:
        raise SessionExists(new.id)


def meta_text(new: NewSession) -> str | None:
    """The session's `meta` as it is stored. Raises `UserError` if it is not JSON, or if the id is
    empty or the priority invalid."""
    check_session_id(new.id)
    check_priority(new)
    return json_text(new.meta, "`meta` of session {!r}", new.id) if new.meta else None


def _fixed(new: NewSession, meta: str | None) -> tuple[Any, ...]:
    return new.id, new.agent, new.status, new.user_id, meta, new.priority


def claim_new(
    db: apsw.Connection,
    new: NewSession,
    meta: str | None,
    *,
    owner: str,
    lease_s: float,
    now_us: int,
    now_ms: int,
) -> tuple[Claim, SessionRow] | None:
    """Insert a row that is claimed by `owner`; `None` if the id is taken."""
    until = now_ms + int(lease_s * 1000)
    db.execute(_INSERT, (*_fixed(new, meta), 1, owner, until, now_us, now_us))
    if db.changes() == 0:
        return None
    row = new_row(
        id=new.id,
        agent=new.agent,
        status=new.status,
        outcome=None,
        conclusion=None,
        user_id=new.user_id,
        meta=loads(meta) if meta else {},
        cursor={},
        variables={},
        seq=0,
        epoch=1,
        owner=owner,
        created_at_us=now_us,
        updated_at_us=now_us,
        priority=new.priority,
    )
    return _claim(db.last_insert_rowid(), row, lease_s), row


def claim_stored(
    db: apsw.Connection, session_id: str, *, owner: str, lease_s: float, now_ms: int
) -> tuple[Claim, SessionRow]:
    """Claim a row. Raises `SessionNotFound` or `SessionBusy`."""
    sql = f"{_TAKE} WHERE id = ? AND {_FREE} RETURNING {_COLUMNS}"
    values = (owner, now_ms + int(lease_s * 1000), session_id, now_ms)
    found = query(db, sql, values)
    if not found:
        _free_of_dead(db, session_id, now_ms)
        found = query(db, sql, values)
    row = _row(found[0], now_ms)
    return _claim(found[0][0], row, lease_s), row


def claim_ready(
    db: apsw.Connection,
    *,
    owner: str,
    lease_s: float,
    now_ms: int,
    agents: Collection[str] | None,
) -> tuple[Claim, SessionRow] | None:
    """Claim the first ready row in the queue, with one of `agents` if given."""
    found = query(
        db,
        f"{_TAKE} WHERE num = (SELECT num FROM sessions INDEXED BY sessions_ready"
        f" WHERE status = 'ready' AND {_FREE}"
        " AND (?4 IS NULL OR agent IN (SELECT value FROM json_each(?4)))"
        f" ORDER BY place_us, num LIMIT 1) RETURNING {_COLUMNS}",
        (
            owner,
            now_ms + int(lease_s * 1000),
            now_ms,
            None if agents is None else dumps(sorted(agents)),
        ),
    )
    if not found:
        return None
    row = _row(found[0], now_ms)
    return _claim(found[0][0], row, lease_s), row


def free_ready_of_dead(db: apsw.Connection) -> bool:
    """Free the ready rows whose owner is known to be dead, and return whether there were any."""
    owners = query(
        db,
        "SELECT DISTINCT owner FROM (SELECT owner FROM sessions INDEXED BY sessions_ready"
        f" WHERE status = 'ready' ORDER BY place_us LIMIT {MOST_CHECKED})"
        " WHERE owner IS NOT NULL",
    )
    # Processes on other machines cannot be checked; their leases have to expire.
    dead = [owner for (owner,) in owners if is_dead(owner)]
    if dead:
        db.execute(
            "UPDATE sessions INDEXED BY sessions_ready SET owner = NULL, lease_until = NULL"
            " WHERE status = 'ready' AND owner IN (SELECT value FROM json_each(?))",
            (dumps(dead),),
        )
    return bool(dead)


def renew_claims(db: apsw.Connection, claims: Sequence[Claim], now_ms: int) -> list[Claim]:
    """Extend the valid leases, and return the lost claims."""
    lost = []
    for claim in claims:
        db.execute(
            "UPDATE sessions SET lease_until = ?"
            # The fence: a claim that was taken over has an older epoch, and one that ran out is not
            # revived.
            " WHERE num = ? AND epoch = ? AND owner = ? AND lease_until > ?",
            (now_ms + int(claim.lease_s * 1000), claim.key, claim.epoch, claim.owner, now_ms),
        )
        if db.changes() == 0:
            lost.append(claim)
    return lost


def release_claim(db: apsw.Connection, claim: Claim) -> None:
    """Free the row if it still belongs to the claim."""
    db.execute(
        "UPDATE sessions SET owner = NULL, lease_until = NULL"
        " WHERE num = ? AND epoch = ? AND owner = ?",
        (claim.key, claim.epoch, claim.owner),
    )


def delete_session(db: apsw.Connection, session_id: str, now_ms: int) -> None:
    """Remove the row with its journal. Raises `SessionNotFound` or `SessionBusy`."""
    sql = f"DELETE FROM sessions WHERE id = ? AND {_FREE} RETURNING num"
    found = query(db, sql, (session_id, now_ms))
    if not found:
        _free_of_dead(db, session_id, now_ms)
        found = query(db, sql, (session_id, now_ms))
    # Steps and events are deleted by number, in the same transaction. The row itself is gone
    # already, so that no claim can come between.
    _keep_last_event_id(db, found[0][0])
    db.execute("DELETE FROM events WHERE session = ?", found[0])
    db.execute("DELETE FROM steps WHERE session = ?", found[0])


def _keep_last_event_id(db: apsw.Connection, num: int) -> None:
    """Keep the highest event id if it belongs to this session, in an invisible row.

    Otherwise SQLite would give the id to the next event, and readers of the feed that are past this
    id would miss that event. Only one invisible row is kept.
    """
    # With `max`, SQLite takes `session` from the same row.
    ((last, session),) = query(db, "SELECT max(id), session FROM events")
    if session != num:
        return
    db.execute("DELETE FROM events WHERE session = -1")
    db.execute(
        "UPDATE events SET session = -1, seq = 1, type = 'gone', at_us = 0, agent = NULL,"
        " step = NULL, duration_us = NULL, details = NULL, items = NULL, error = NULL"
        " WHERE id = ?",
        (last,),
    )


def read_session(db: apsw.Connection, session_id: str, now_ms: int) -> SessionRow:
    """The row. Raises `SessionNotFound`."""
    found = query(db, f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,))
    if not found:
        raise SessionNotFound(session_id)
    return _row(found[0], now_ms)


def read_page(
    db: apsw.Connection, where: SessionFilter, limit: int, cursor: str | None, now_ms: int
) -> SessionPage:
    """A page below the cursor, which is the `num` of the previous page's last row."""
    sql, values = _page_sql(where, None if cursor is None else parse_cursor(cursor))
    found = query(db, f"{sql} ORDER BY num DESC LIMIT {limit + 1:d}", values)
    more = len(found) > limit
    return SessionPage(
        sessions=[_row(values, now_ms) for values in found[:limit]],
        next_cursor=str(found[limit - 1][0]) if more else None,
    )


def _page_sql(where: SessionFilter, below: int | None) -> tuple[str, list[str | int]]:
    """The statement and its values.

    An index has the sessions of each agent and status in order: for an agent without a status, the
    sessions of all statuses are merged.
    """
    columns = _indexed_columns(where)
    statuses = [where.status]
    if columns == {"agent", "status"} and where.status is None:
        statuses = [*get_args(SessionStatus)]
    parts: list[str] = []
    values: list[str | int] = []
    for status in statuses:
        conditions = ["1"]
        for column, value in (
            ("status", status),
            ("agent", where.agent),
            ("user_id", where.user_id),
            ("outcome", where.outcome),
            ("conclusion", where.conclusion),
        ):
            if value is not None:
                # The `+` keeps the engine from using an index of this column.
                conditions.append(f"{'' if column in columns else '+'}{column} = ?")
                values.append(value)
        if "conclusion" in columns:
            conditions.append(f"conclusion <> '{USUAL_CONCLUSION}'")  # For the index.
        if below is not None:
            conditions.append("num < ?")
            values.append(below)
        parts.append(f"SELECT {_COLUMNS} FROM sessions WHERE {' AND '.join(conditions)}")
    return " UNION ALL ".join(parts), values


def _indexed_columns(where: SessionFilter) -> Collection[str]:
    """The columns whose index finds the sessions; the rest of the filter is applied to these."""
    if where.user_id is not None:
        return {"user_id"}
    if where.conclusion not in (None, USUAL_CONCLUSION):
        return {"conclusion"}
    if where.outcome is not None and (where.agent is None or where.outcome != _USUAL_OUTCOME):
        return {"outcome"}
    return {"status"} if where.agent is None else {"agent", "status"}


def _claim(num: int, row: SessionRow, lease_s: float) -> Claim:
    return Claim(
        session_id=row.id, owner=row.owner or "", epoch=row.epoch, lease_s=lease_s, key=num
    )


def _row(values: tuple[Any, ...], now_ms: int) -> SessionRow:
    (
        _,
        session_id,
        agent,
        status,
        outcome,
        conclusion,
        user_id,
        meta,
        cursor,
        variables,
        seq,
        epoch,
        owner,
        lease_until,
        created_us,
        updated_us,
        wakes,
        priority,
    ) = values
    return new_row(
        id=session_id,
        agent=agent,
        status=status,
        outcome=outcome,
        conclusion=conclusion,
        user_id=user_id,
        meta=loads(meta) if meta else {},
        cursor=loads(cursor) if cursor else {},
        variables=loads(variables) if variables else {},
        seq=seq,
        epoch=epoch,
        owner=None if lease_until is None or lease_until <= now_ms or is_dead(owner) else owner,
        created_at_us=created_us,
        updated_at_us=updated_us,
        wakes=wakes,
        priority=priority,
    )


def _free_of_dead(db: apsw.Connection, session_id: str, now_ms: int) -> None:
    """Free a row whose owner is known to be dead. Raises `SessionNotFound`, and `SessionBusy` if
    the owner may be alive."""
    # Only asked when the row is not free: asking the operating system about a process costs more
    # than the update.
    found = query(db, "SELECT owner, lease_until FROM sessions WHERE id = ?", (session_id,))
    if not found:
        raise SessionNotFound(session_id)
    owner, lease_until = found[0]
    if not is_dead(owner):
        raise SessionBusy(session_id, owner=owner, free_in_s=(lease_until - now_ms) / 1000)
    db.execute("UPDATE sessions SET owner = NULL, lease_until = NULL WHERE id = ?", (session_id,))


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
        collection=collection, key=key, body=loads(body), version=version, updated_at_us=updated_us
    )


class SqliteNewSession(NamedTuple):
    """A session to be created, as rows."""

    row: Row
    """Id, agent, status, user, meta, priority, cursor, variables, number of the last event,
    creation time, time of the last change."""
    events: Sequence[Row]
    """Rows of `event_rows`, with `NO_SESSION` for the number that the session will get."""


def prepare_openings(openings: Sequence[SessionOpening], now_us: int) -> list[SqliteNewSession]:
    """The sessions as rows. Raises `UserError` or `StepConflict`."""
    return [_prepare_opening(opening, now_us) for opening in openings]


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
