"""Tenants: each has a store of its own, so that nothing of one can be seen from another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ekiden.core.errors import UserError
from ekiden.core.values import is_tenant
from ekiden.project.stores import open_store, sqlite_path
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.project.settings import Settings

DEFAULT_TENANT: Final = "default"
"""Whose store is the main one, which also holds the keys of all."""

JOINT = "__"
"""Between the name of a schema and that of a tenant."""


def check_tenant(name: str) -> str:
    """`name` unchanged; `UserError` if a tenant cannot be called so."""
    if not is_tenant(name):
        raise UserError(
            f"a tenant cannot be called {name!r:.60}: use up to 32 small letters, digits and _, "
            "none of these at an end but letters and digits"
        )
    return name


def tenant_store(url: str, tenant: str) -> Store:
    """The store of `tenant` beside the main one at `url`; it connects when it is first used."""
    address = tenant_url(url, tenant)
    path = sqlite_path(address)
    if path is not None and tenant != DEFAULT_TENANT:
        path.parent.mkdir(parents=True, exist_ok=True)
    return open_store(address)


def tenant_url(url: str, tenant: str) -> str:
    """Where the store of `tenant` is, beside the main one at `url`.

    Of a SQLite file ``desk.db`` it is ``desk.tenants/NAME.db``; in PostgreSQL a schema whose name
    ends in ``__NAME``; ``memory:`` is one that nobody else has.
    """
    check_tenant(tenant)
    if tenant == DEFAULT_TENANT or url == "memory:":
        return url
    path = sqlite_path(url)
    if path is None:
        return _in_schema(url, tenant)
    return str(path.with_name(f"{path.stem}.tenants") / f"{tenant}.db")


async def find_tenants(url: str, main: Store) -> list[str]:
    """The tenants that have a store beside the `main` one, which is at `url`; not the default one.

    `StoreError` if that cannot be found out. ``memory:`` has none.
    """
    if url == "memory:":
        return []
    path = sqlite_path(url)
    if path is not None:
        names = [each.stem for each in path.with_name(f"{path.stem}.tenants").glob("*.db")]
    else:
        from ekiden.storage.postgres import PostgresStore
        from ekiden.storage.postgres.copying.snapshot import stores_beside

        assert isinstance(main, PostgresStore)
        names = await stores_beside(main, JOINT)
    return sorted(name for name in names if is_tenant(name) and name != DEFAULT_TENANT)


def _in_schema(url: str, tenant: str) -> str:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    # The database cuts off names beyond 63 characters, and a schema may have 48.
    options["schema"] = f"{options.get('schema') or 'ekiden'}{JOINT}{tenant}"
    return urlunsplit(parts._replace(query=urlencode(options)))


def tenant_app(settings: Settings, tenant: str) -> str:
    """Whose memory and ``app:`` state it is.

    It differs from tenant to tenant, because copies of memories may lie together outside of the
    store.
    """
    return settings.app if tenant == DEFAULT_TENANT else f"{settings.app}@{tenant}"
