"""Implements the administration of a store: keys, settings, workers, and the replica of its
sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from ekiden.api import administration as api
from ekiden.api.local.context import LocalContext
from ekiden.api.methods.endpoint import Scope
from ekiden.api.methods.values import Page, Pages, page_of
from ekiden.core.errors import UserError
from ekiden.core.errors.server import Forbidden, KeyNotFound, NotServed
from ekiden.engine.registry import list_workers, unserved
from ekiden.project import keys as ring
from ekiden.project.run_options import session_replica
from ekiden.project.settings import LoadedSettings, SettingEntry, redacted
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.sessions.replica_progress import ReplicaStatus, replica_status


class LocalKeys(api.KeysApi):
    """`KeysApi` on the main store. For the store of any other tenant, every call raises
    `Forbidden`."""

    def __init__(self, context: LocalContext) -> None:
        if context.tenant != DEFAULT_TENANT:
            raise Forbidden("admin")
        self._context = context
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


class LocalWorkers(api.WorkersApi):
    """`WorkersApi` on a store in this process."""

    def __init__(self, context: LocalContext) -> None:
        self._store = context.store
        self._tenant = context.tenant

    async def list(self) -> api.WorkerOverview:
        workers = await list_workers(self._store)
        if self._tenant != DEFAULT_TENANT:
            # The store may be a copy of another one, including its list of workers.
            workers = [each for each in workers if each.tenant in ("", self._tenant)]
        return api.WorkerOverview(workers=workers, unserved=await unserved(self._store, workers))


class LocalReplicas(api.ReplicasApi):
    """`ReplicasApi` on a store in this process. Raises `NotServed` if the settings name no
    replica."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context

    async def status(self) -> ReplicaStatus:
        try:
            name = session_replica(self._context.settings.mirror).name
        except UserError as exc:
            raise NotServed(str(exc)) from exc
        return await replica_status(self._context.store, name)
