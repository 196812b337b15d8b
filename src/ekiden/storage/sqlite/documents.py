"""Documents in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from ekiden.core.errors import StaleDocument
from ekiden.core.values import loads
from ekiden.storage.base import Document, DocumentWrite
from ekiden.storage.sqlite.connection import query
from ekiden.storage.values import json_text, prefix_end


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
    """The writes as rows; `UserError` for bodies that are not JSON."""
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
