"""Keys in the main store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.api import administration as api
from ekiden.api.endpoint import Scope
from ekiden.api.local.place import Here
from ekiden.api.values import Page, Pages, page_of
from ekiden.core.errors.server import Forbidden, KeyNotFound
from ekiden.project import keys as ring
from ekiden.project.stores import DEFAULT_TENANT


class LocalKeys(api.Keys):
    """See `Keys`; `Forbidden` at the store of another tenant than the main one."""

    def __init__(self, here: Here) -> None:
        if here.tenant != DEFAULT_TENANT:
            raise Forbidden("admin")
        self._here = here
        self._keys = ring.Keys(here.store)

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
        made = await self._keys.create(name, scopes=scopes, tenant=tenant, expires_s=expires_s)
        self._here.keys_changed()
        return api.NewApiKey(**await self._facts(made.key), key=made.text)

    async def revoke(self, key_id: str) -> api.ApiKey:
        revoked = await self._keys.revoke(key_id)
        self._here.keys_changed()
        return api.ApiKey(**await self._facts(revoked))

    async def _facts(self, key: ring.ApiKey) -> dict[str, Any]:
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
