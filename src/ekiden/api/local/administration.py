"""Administration of a store: keys, settings, workers, the replica of its sessions, the audit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Self, Unpack

from ekiden.api import administration as api
from ekiden.api.local.context import LocalContext, LocalPart, moment_of
from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.endpoint import Scope
from ekiden.api.methods.values import Page, Pages, page_of
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
from ekiden.core.errors import UserError
from ekiden.core.errors.server import (
    AuditRecordNotFound,
    Forbidden,
    KeyNotFound,
    NotServed,
    TookTooLong,
)
from ekiden.engine.registry import list_workers, unserved
from ekiden.project import keys as ring
from ekiden.project.settings import LoadedSettings, SettingEntry, redacted
from ekiden.project.stores import DEFAULT_TENANT, session_replica
from ekiden.sessions.replica_progress import ReplicaStatus, replica_status
from ekiden.storage.base import Store


class LocalKeys(LocalPart, api.KeysApi):
    """`KeysApi` on the main store. For the store of any other tenant, every call raises
    `Forbidden`."""

    def __init__(self, context: LocalContext) -> None:
        if context.tenant != DEFAULT_TENANT:
            raise Forbidden("admin")
        super().__init__(context)
        self._keys = ring.KeyStore(context.store)

    def list(self, *, tenant: str | None = None) -> Pages[api.ApiKey]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.ApiKey]:
            found = await self._keys.list(tenant=tenant)
            page = page_of(found, limit=limit, cursor=cursor, key=lambda each: each.id)
            if page is None:
                raise KeyNotFound
            shown = [api.ApiKey(**await self._facts(each)) for each in page.items]
            return Page(items=shown, next_cursor=page.next_cursor)

        return Pages(fetch)

    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[Scope],
        tenant: str = DEFAULT_TENANT,
        expires_s: float | None = None,
    ) -> api.NewApiKey:
        new = await self._keys.create(name, scopes=scopes, tenant=tenant, expires_s=expires_s)
        self._context.keys_changed()
        return api.NewApiKey(**await self._facts(new.key), key=new.text)

    async def revoke(self, key_id: str) -> api.ApiKey:
        revoked = await self._keys.revoke(key_id)
        self._context.keys_changed()
        return api.ApiKey(**await self._facts(revoked))

    async def _facts(self, key: ring.StoredKey) -> dict[str, Any]:
        now_us = await self._keys.now_us()
        used_at_us = await self._keys.used_at_us(key.id)
        ended: api.KeyStatus = "revoked" if key.revoked_at_us is not None else "expired"
        return {
            "id": key.id,
            "name": key.name,
            "tenant": key.tenant,
            "scopes": [scope for scope in ring.SCOPES if scope in key.scopes],
            "status": "active" if key.is_live(now_us) else ended,
            "created_at": key.created_at_us / 1e6,
            "expires_at": _seconds(key.expires_at_us),
            "last_used_at": _seconds(used_at_us),
            "revoked_at": _seconds(key.revoked_at_us),
        }


def _seconds(at_us: int | None) -> float | None:
    return None if at_us is None else at_us / 1e6


class LocalSettings(api.SettingsApi):
    """`SettingsApi` of this process. For all tenants except the main tenant, every call raises
    `NotServed`."""

    def __init__(
        self,
        loaded: LoadedSettings,
        *,
        tenant: str = DEFAULT_TENANT,
        shows_secrets: bool = False,
    ) -> None:
        self._loaded = loaded
        self._tenant = tenant
        self._shows_secrets = shows_secrets

    @classmethod
    def of(cls, context: LocalContext) -> Self:
        """The settings of a context, with secrets masked."""
        return cls(context.loaded, tenant=context.tenant)

    def list(self) -> Pages[SettingEntry]:
        async def fetch(limit: int, cursor: str | None) -> Page[SettingEntry]:
            return Page(items=self._entries())

        return Pages(fetch)

    async def get(self, key: str) -> SettingEntry:
        for entry in self._entries():
            if entry.key == key:
                return entry
        raise NotServed(
            f"no setting is called {key[:80]!r}; GET /api/v1/settings lists all settings"
        )

    def _entries(self) -> tuple[SettingEntry, ...]:
        if self._tenant != DEFAULT_TENANT:
            raise NotServed("there are no settings here: only the operator of the server sees them")
        found = self._loaded.entries()
        if self._shows_secrets:
            return tuple(found)
        return tuple(replace(each, value=redacted(each.key, each.value)) for each in found)


class LocalWorkers(LocalPart, api.WorkersApi):
    """`WorkersApi` on a store in this process."""

    async def list(self) -> api.WorkerOverview:
        workers = await list_workers(self._store)
        if self._context.tenant != DEFAULT_TENANT:
            # The store may be a copy of another one, including its list of workers.
            workers = [each for each in workers if each.tenant in ("", self._context.tenant)]
        return api.WorkerOverview(workers=workers, unserved=await unserved(self._store, workers))


class LocalReplicas(LocalPart, api.ReplicasApi):
    """`ReplicasApi` on a store in this process. Raises `NotServed` if the settings name no
    replica."""

    async def status(self) -> ReplicaStatus:
        try:
            name = session_replica(self._context.settings.mirror).name
        except UserError as exc:
            raise NotServed(str(exc)) from exc
        return await replica_status(self._store, name)


_MAX_SCANNED: Final = 10_000
"""The maximum number of events that are searched for a text for one page."""


class LocalAudit(LocalPart, api.AuditApi):
    """`AuditApi` on a store in this process."""

    def list(
        self, *, oldest_first: bool = False, **filters: Unpack[api.AuditFilters]
    ) -> Pages[api.AuditEntry]:
        query = replace(_query(filters), newest_first=not oldest_first)
        most = _MAX_SCANNED if query.text else None

        async def fetch(limit: int, cursor: str | None) -> Page[api.AuditEntry]:
            found = await audit_records(self._store, query, limit=limit, cursor=cursor, most=most)
            return Page(
                items=[_entry(each) for each in found.records], next_cursor=found.next_cursor
            )

        return Pages(fetch)

    def get(self, record_id: str) -> Pages[api.AuditEntry]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.AuditEntry]:
            found = await find_records(self._store, record_id)
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
                        self._store,
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
        return AsyncStream(_exported(self._store, _query(filters)))


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
