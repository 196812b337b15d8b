"""From addresses to stores that are read or written as a whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path

from ekiden.app.defaults import DEFAULT_STORE
from ekiden.app.stores import sqlite_path
from ekiden.app.tenants import DEFAULT_TENANT, JOINT, check_tenant, is_tenant, tenant_url
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.storage.copying import BulkSource, BulkTarget

_POSTGRES = ("postgresql", "postgres")


def source_at(url: str, tenant: str = DEFAULT_TENANT) -> BulkSource:
    """The store of the tenant, to be read; `UserError` for what is no address of a store."""
    path = _path(url)
    address = tenant_url(url, tenant)
    if path is None:
        from ekiden.storage.postgres.copy_source import PostgresSource

        return PostgresSource(address)
    from ekiden.storage.sqlite.copy_source import SqliteSource

    return SqliteSource(sqlite_path(address) or path)


def target_at(url: str, tenant: str = DEFAULT_TENANT) -> BulkTarget:
    """The store of the tenant, to be filled; the folder of the main one must be there, unless it is
    the default one."""
    path = _path(url)
    address = tenant_url(url, tenant)
    if path is None:
        from ekiden.storage.postgres.copy_target import PostgresTarget

        return PostgresTarget(address)
    from ekiden.storage.sqlite.copy_target import SqliteTarget

    if path != Path(DEFAULT_STORE) and not path.parent.is_dir():
        raise StoreUnavailable(f"the folder {path.parent} does not exist; make it, or name another")
    return SqliteTarget(sqlite_path(address) or path)


async def tenants_at(url: str, wanted: Collection[str] | None) -> Sequence[str]:
    """The tenants that are wanted, or all that have a store there, the default one first.

    `UserError` for one that has none.
    """
    async with source_at(url) as main:
        beside = [name for name in await main.beside(JOINT) if is_tenant(name)]
    found = [DEFAULT_TENANT, *sorted({*beside} - {DEFAULT_TENANT})]
    if wanted is None:
        return found
    for name in wanted:
        if check_tenant(name) not in found:
            raise UserError(
                f"there is no store of a tenant {name!r} at {main.url}; there are "
                f"{', '.join(found)}"
            )
    if not wanted:
        raise UserError("name at least one tenant, or none for all of them")
    return [name for name in found if name in wanted]


def _path(url: str) -> Path | None:
    """The file that `url` means, or `None` if it is in PostgreSQL."""
    if url.partition("://")[0] in _POSTGRES:
        if find_spec("asyncpg") is None:
            raise UserError("PostgreSQL needs asyncpg: pip install 'ekiden[postgres]'")
        return None
    path = sqlite_path(url)
    if path is None:
        problem = (
            "a store in memory: ends with its process"
            if url == "memory:"
            else f"no store speaks {url.partition('://')[0]}://"
        )
        raise UserError(f"{problem}; give a path, sqlite:///path or postgresql://…")
    return path
