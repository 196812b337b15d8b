"""From an address to a store."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.project.defaults import DEFAULT_STORE
from ekiden.storage.base import Store

_POSTGRES = ("postgresql", "postgres")


def open_store(url: str = DEFAULT_STORE, *, create: bool = True) -> Store:
    """The store at `url`; it connects when it is first used, or entered with `async with`.

    `url` is ``memory:``, a path, ``sqlite:///path`` or ``postgresql://…``; anything else is
    `UserError`. With ``create=False`` the store must exist: a missing SQLite file raises
    `StoreUnavailable`, and a file or database without tables `StoreEmpty`. Otherwise the store is
    created; a missing folder is created only for the default path::

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
    """`UserError` for what no store can be at; nothing is opened."""
    if url == "memory:":
        return
    if url.partition("://")[0] in _POSTGRES:
        from ekiden.storage.postgres.connection.address import parse_address

        parse_address(url)
    elif sqlite_path(url) is None:
        raise _no_store(url)


def _no_store(url: str) -> UserError:
    return UserError(
        f"no store speaks {url.partition('://')[0][:40]}://; "
        "give a path, sqlite:///path, postgresql://… or memory:"
    )


def sqlite_path(url: str) -> Path | None:
    """The file that `url` means, or `None` when it means no SQLite file."""
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
            f"there is no store at {path}; `ekiden run` makes one, "
            "and --store or EKIDEN_STORE names another"
        )
    if path == Path(DEFAULT_STORE):
        path.parent.mkdir(exist_ok=True)
    if not path.parent.is_dir():
        raise StoreUnavailable(f"the folder {path.parent} does not exist; make it, or name another")
    return SqliteStore(path, create=create)


def _postgres(url: str, *, create: bool) -> Store:
    if find_spec("asyncpg") is None:
        raise UserError("PostgreSQL needs asyncpg: pip install 'ekiden[postgres]'")
    from ekiden.storage.postgres import PostgresStore

    return PostgresStore(url, create=create)
