"""Opens stores by address: the main store, tenants' stores, and the replica of sessions."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.integrations.registry import integration
from ekiden.core.values import is_tenant
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.sessions.replica import ReplicaSettings, SessionReplica

DEFAULT_STORE = ".ekiden/ekiden.db"
"""The path of the default store in the current folder. The first run creates this store."""

_POSTGRES = ("postgresql", "postgres")


def open_store(url: str = DEFAULT_STORE, *, create: bool = True) -> Store:
    """Open the store at `url`. The store connects at its first use, or at the start of `async
    with`.

    `url` is ``memory:``, a path, ``sqlite:///path`` or ``postgresql://…``; any other value raises
    `UserError`. With ``create=False`` the store must exist: a missing SQLite file raises
    `StoreUnavailable`, and a file or database without tables raises `StoreEmpty`. Otherwise a
    missing store is created. A missing folder is created only for the default path::

        async with open_store("postgresql://localhost/desk") as store:
            print(await store.info())
    """
    if url == "memory:":
        from ekiden.storage.memory import MemoryStore

        return MemoryStore()
    if url.partition("://")[0] in _POSTGRES:
        return _postgres(url, create=create)
    path = sqlite_path(url)
    if path is None:
        raise _no_store(url)
    return _sqlite(path, create=create)


def check_store_url(url: str) -> None:
    """Raise `UserError` for an invalid address of a store. Nothing is opened."""
    if url == "memory:":
        return
    if url.partition("://")[0] in _POSTGRES:
        from ekiden.storage.postgres.address import parse_address

        parse_address(url)
    elif sqlite_path(url) is None:
        raise _no_store(url)


def _no_store(url: str) -> UserError:
    return UserError(
        f"there is no store for {url.partition('://')[0][:40]}://; give a path, sqlite:///path, "
        "postgresql://… or memory:"
    )


def sqlite_path(url: str) -> Path | None:
    """The path of the SQLite file at `url`; `None` for another kind of store."""
    scheme, separator, rest = url.partition("://")
    if url == "memory:" or (separator and scheme != "sqlite"):
        return None
    # As in other tools, sqlite:///a is relative and sqlite:////a absolute.
    text = rest.removeprefix("/") if separator else url
    if not text.strip():
        raise UserError(f"the store's path is empty; give a file, such as {DEFAULT_STORE}")
    return Path(text)


def _sqlite(path: Path, *, create: bool) -> Store:
    from ekiden.storage.sqlite import SqliteStore

    if not create and not path.exists():
        raise StoreUnavailable(
            f"there is no store at {path}; `ekiden run` creates it, "
            "or name another one with --store or EKIDEN_STORE"
        )
    if path == Path(DEFAULT_STORE):
        path.parent.mkdir(exist_ok=True)
    if not path.parent.is_dir():
        raise StoreUnavailable(
            f"the folder {path.parent} does not exist; create it or name another"
        )
    return SqliteStore(path, create=create)


def _postgres(url: str, *, create: bool) -> Store:
    if find_spec("asyncpg") is None:
        raise UserError("PostgreSQL needs asyncpg: pip install 'ekiden[postgres]'")
    from ekiden.storage.postgres import PostgresStore

    return PostgresStore(url, create=create)


DEFAULT_TENANT: Final = "default"
"""The tenant of the main store, which also holds the API keys of all tenants."""

JOINT = "__"
"""The separator between the name of the main schema and the name of a tenant."""


def check_tenant(name: str) -> str:
    """Return `name` unchanged. Raises `UserError` for an invalid tenant name."""
    if not is_tenant(name):
        raise UserError(
            f"a tenant cannot be called {name!r:.60}: use up to 32 lower-case letters, digits "
            "and _, with a letter or a digit first and last"
        )
    return name


def tenant_store(url: str, tenant: str) -> Store:
    """Return the store of `tenant`, which is beside the main store at `url`. The store connects at
    its first use."""
    address = tenant_url(url, tenant)
    path = sqlite_path(address)
    if path is not None and tenant != DEFAULT_TENANT:
        path.parent.mkdir(parents=True, exist_ok=True)
    return open_store(address)


def tenant_url(url: str, tenant: str) -> str:
    """The address of the tenant's store, beside the main store at `url`.

    For a SQLite file ``desk.db``, the address is ``desk.tenants/NAME.db``. In PostgreSQL, it names
    a schema that ends in ``__NAME``. Each ``memory:`` store is separate.
    """
    check_tenant(tenant)
    if tenant == DEFAULT_TENANT or url == "memory:":
        return url
    path = sqlite_path(url)
    if path is None:
        return _in_schema(url, tenant)
    return str(path.with_name(f"{path.stem}.tenants") / f"{tenant}.db")


async def find_tenants(url: str, main: Store) -> list[str]:
    """The tenants with a store beside the `main` store at `url`, without the default tenant.

    Raises `StoreError` if the stores cannot be listed. A ``memory:`` store has no other tenants.
    """
    if url == "memory:":
        return []
    path = sqlite_path(url)
    if path is not None:
        names = [each.stem for each in path.with_name(f"{path.stem}.tenants").glob("*.db")]
    else:
        from ekiden.storage.postgres import PostgresStore
        from ekiden.storage.postgres.snapshot import neighbour_stores

        assert isinstance(main, PostgresStore)
        names = await neighbour_stores(main, JOINT)
    return sorted(name for name in names if is_tenant(name) and name != DEFAULT_TENANT)


def _in_schema(url: str, tenant: str) -> str:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    # A name of more than 48 characters is refused when the address is read: PostgreSQL would cut
    # longer names off at 63.
    options["schema"] = f"{options.get('schema') or 'ekiden'}{JOINT}{tenant}"
    return urlunsplit(parts._replace(query=urlencode(options)))


def tenant_app(app: str, tenant: str) -> str:
    """The owner of a tenant's memories and of its ``app:`` state.

    Each tenant has its own owner name, because a memory service may have copies of the memories of
    all tenants.
    """
    return app if tenant == DEFAULT_TENANT else f"{app}@{tenant}"


_URL = "EKIDEN_VERTEX_URL"
"""Another address of Vertex, such as a private one. It is read from the environment only, and never
from a project's files, because this address gets the token of this machine."""


def session_replica(settings: ReplicaSettings) -> SessionReplica:
    """Create the replica that the settings name. Raises `UserError` if the settings name no
    replica, or if the extra ``vertex`` is missing.

    For example::

        await replicate_sessions(store, session_replica(load_settings(folder).settings.mirror))
    """
    vertex = settings.vertex
    if not (vertex.project and vertex.engine):
        raise UserError(
            "no mirror is set up: `ekiden config set mirror.vertex.project PROJECT` and "
            "`ekiden config set mirror.vertex.engine ID` say where sessions are mirrored to"
        )
    mirror: SessionReplica = (
        integration("vertex")
        .load()
        .VertexReplica(
            project=vertex.project,
            location=vertex.location,
            engine=vertex.engine,
            url=os.environ.get(_URL) or None,
        )
    )
    return mirror
