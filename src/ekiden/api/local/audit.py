"""The audit trail of a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Unpack

from ekiden.api import audit as api
from ekiden.api.local.context import LocalContext, moment_of
from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.values import Page, Pages
from ekiden.audit import (
    AuditQuery,
    AuditRecord,
    Verification,
    audit_records,
    find_records,
    verify_audit,
)
from ekiden.audit.query import export_lines
from ekiden.core.documents import from_json
from ekiden.core.errors.server import AuditRecordNotFound, TookTooLong
from ekiden.storage.base import Store

_MAX_SCANNED: Final = 10_000
"""The maximum number of events that are searched for a text for one page."""


class LocalAudit(api.AuditApi):
    """`AuditApi` on a store in this process."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context

    def list(
        self, *, oldest_first: bool = False, **filters: Unpack[api.AuditFilters]
    ) -> Pages[api.AuditEntry]:
        query = replace(_query(filters), newest_first=not oldest_first)
        most = _MAX_SCANNED if query.text else None

        async def fetch(limit: int, cursor: str | None) -> Page[api.AuditEntry]:
            found = await audit_records(
                self._context.store, query, limit=limit, cursor=cursor, most=most
            )
            return Page(
                items=[_entry(each) for each in found.records], next_cursor=found.next_cursor
            )

        return Pages(fetch)

    def get(self, record_id: str) -> Pages[api.AuditEntry]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.AuditEntry]:
            found = await find_records(self._context.store, record_id)
            if not found:
                raise AuditRecordNotFound(record_id)
            return Page(items=[_entry(each) for each in found])

        return Pages(fetch)

    async def verify(
        self,
        *,
        session_id: str | None = None,
        against: str | Iterable[str] | None = None,
        timeout_s: float = 55.0,
    ) -> api.AuditVerification:
        with self._context.one_at_a_time("verify"):
            try:
                async with asyncio.timeout(timeout_s if self._context.has_deadlines else None):
                    found = await verify_audit(
                        self._context.store,
                        session_id=session_id,
                        against=_lines(against) if isinstance(against, str) else against,
                        progress=self._context.progress,
                    )
            except TimeoutError as exc:
                raise TookTooLong(
                    f"the audit could not be verified within {timeout_s:g} s; verify sessions one "
                    "by one, or use `ekiden audit verify`"
                ) from exc
        return verification_of(found)

    def export(self, **filters: Unpack[api.AuditFilters]) -> AsyncStream[str]:
        return AsyncStream(_exported(self._context.store, _query(filters)))


def _query(filters: api.AuditFilters) -> AuditQuery:
    return AuditQuery(
        agent=filters.get("agent"),
        task=filters.get("task"),
        correlation_id=filters.get("correlation"),
        status=filters.get("status"),
        session_id=filters.get("session"),
        handoff_id=filters.get("handoff"),
        type=filters.get("type"),
        since=moment_of(filters.get("since"), what="since"),
        until=moment_of(filters.get("until"), what="until"),
        text=filters.get("text") or "",
    )


async def _exported(store: Store, query: AuditQuery) -> AsyncGenerator[str, None]:
    async with aclosing(export_lines(store, query)) as lines:
        async for line in lines:
            yield line.removesuffix("\n")


def verification_of(found: Verification) -> api.AuditVerification:
    """Convert the result of a verification to the value of the interface."""
    result: api.AuditVerification = from_json(api.AuditVerification, found.to_json())
    return result


def _entry(record: AuditRecord) -> api.AuditEntry:
    entry: api.AuditEntry = from_json(api.AuditEntry, record.to_json())
    return entry


def _lines(text: str) -> Iterable[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
