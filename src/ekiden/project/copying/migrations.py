"""Migrates the stores of all tenants, or shows which migrations they need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import StoreEmpty
from ekiden.project.copying.whole_stores import file_at, snapshot_at, tenants_at
from ekiden.project.stores import open_store, tenant_url
from ekiden.storage.copying import Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMigration:
    """The migrations that the store of one tenant needs."""

    tenant: str
    url: str
    format: int
    """The format of the store before the migration."""
    pending: Sequence[Migration]

    def to_json(self) -> dict[str, Any]:
        """The migrations as JSON."""
        return {
            "tenant": self.tenant,
            "url": self.url,
            "format": self.format,
            "pending": [
                {"number": each.number, "name": each.name, "works_with": each.works_with}
                for each in self.pending
            ],
        }


async def pending_migrations(
    url: str, *, tenants: Collection[str] | None = None
) -> Sequence[StoreMigration]:
    """The migrations that the store of each tenant needs. Nothing is changed.

    Raises `StoreTooNew`, `StoreTooOld`, `MigrationChanged` and `StoreEmpty`.
    """
    found = []
    for name in await tenants_at(url, tenants):
        async with snapshot_at(url, name) as source:
            current = (await source.facts(exact=False))["format"]
            if not current:
                raise StoreEmpty(source.url, "it has no tables")
            pending = [each for each in _shipped(url) if each.number > current]
            found.append(
                StoreMigration(tenant=name, url=source.url, format=current, pending=pending)
            )
    return found


async def migrate_store(
    url: str, *, tenants: Collection[str] | None = None
) -> Sequence[StoreMigration]:
    """Migrate the store of each tenant, and return the migrations that it needed. Raises as
    `pending_migrations`, and `StoreUnavailable`."""
    found = await pending_migrations(url, tenants=tenants)
    for each in found:
        if each.pending:
            async with open_store(tenant_url(url, each.tenant), create=False):
                pass  # Every process migrates a store when it opens it.
    return found


def _shipped(url: str) -> Sequence[Migration]:
    if file_at(url) is None:
        from ekiden.storage.postgres.store import shipped
    else:
        from ekiden.storage.sqlite.open_store import shipped
    return shipped()
