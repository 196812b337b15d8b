"""Exports of the audit, to be kept where people with access to the store cannot change them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ekiden.audit.query import AuditQuery, read_page
from ekiden.audit.record import AuditRecord
from ekiden.core.errors import SessionNotFound
from ekiden.core.values import dumps, loads
from ekiden.storage.base import Store
from ekiden.storage.chain import ChainHead, head_of

EXPORT_FORMAT = "ekiden.audit"
EXPORT_VERSION = 1
_PAGE = 500
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal interprets; they are escaped, so that an export can be displayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The last line of an export, which describes the export."""

    records: int
    """The number of records."""
    heads: Mapping[str, ChainHead]
    """The heads of the chains of all sessions with records in the export."""
    sha256: str
    """The SHA-256 of all lines before, each with its line feed, in hexadecimal."""

    def to_json(self) -> dict[str, Any]:
        """The manifest as JSON."""
        return {
            "format": EXPORT_FORMAT,
            "version": EXPORT_VERSION,
            "records": self.records,
            "heads": {name: [head.hash, head.count] for name, head in self.heads.items()},
            "sha256": self.sha256,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """The inverse of `to_json`; raises `ValueError` for an invalid manifest."""
        if data.get("version") != EXPORT_VERSION:
            raise ValueError(f"version {data.get('version')!r} of the format is not known")
        try:
            return cls(
                records=int(data["records"]),
                heads={
                    name: ChainHead(hash=str(value), count=int(count))
                    for name, (value, count) in data["heads"].items()
                },
                sha256=str(data["sha256"]),
            )
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError("its fields are not valid") from exc


async def export_audit(store: Store, query: AuditQuery, write: Callable[[str], object]) -> Manifest:
    """Write the records that match `query`, oldest first, one JSON object per line; the last line
    is the manifest.

    `write` is called once for each line; the line ends with a line feed. If the manifest is
    missing, the export is incomplete. `verify_audit(store, against=lines)` later checks that all
    its records still exist. For example::

        with open("audit.jsonl", "w", encoding="utf-8") as file:
            manifest = await export_audit(store, AuditQuery(), file.write)
    """
    line = ""
    async for line in export_lines(store, query):
        write(line)
    return Manifest.from_json(loads(line))


async def export_lines(store: Store, query: AuditQuery) -> AsyncGenerator[str, None]:
    """The lines that `export_audit` writes, produced on demand."""
    digest = sha256()
    count = 0
    sessions: dict[str, None] = {}
    async for record in _all(store, replace(query, newest_first=False)):
        line = _line(record.to_json())
        yield line
        digest.update(line.encode())
        sessions[record.session_id] = None
        count += 1
    manifest = Manifest(
        records=count, heads=await _heads(store, sessions), sha256=digest.hexdigest()
    )
    yield _line(manifest.to_json())


def _line(value: Mapping[str, Any]) -> str:
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", dumps(value)) + "\n"


async def _all(store: Store, query: AuditQuery) -> AsyncIterator[AuditRecord]:
    cursor: str | None = None
    last: dict[str, str] = {}
    while True:
        page = await read_page(store, query, limit=_PAGE, cursor=cursor, last=last)
        for record in page.records:
            yield record
        cursor = page.next_cursor
        if cursor is None:
            return


async def _heads(store: Store, sessions: Mapping[str, None]) -> Mapping[str, ChainHead]:
    heads: dict[str, ChainHead] = {}
    for session_id in sessions:
        try:
            head = head_of(await store.get(session_id))
        except SessionNotFound:
            continue
        if head is not None:
            heads[session_id] = head
    return heads
