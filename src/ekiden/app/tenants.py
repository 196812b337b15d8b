"""Tenants: each has a store of its own, so that nothing of one can be seen from another."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ekiden.app.stores import open_store, sqlite_path
from ekiden.core.errors import UserError
from ekiden.storage.base import Store

DEFAULT_TENANT: Final = "default"
"""Whose store is the main one, which also holds the keys of all."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_]{0,30}[a-z0-9])?")


def check_tenant(name: str) -> str:
    """`name` unchanged; `UserError` if a tenant cannot be called so."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(
            f"a tenant cannot be called {name!r:.60}: use up to 32 small letters, digits and _, "
            "none of these at an end but letters and digits"
        )
    return name


def tenant_store(url: str, tenant: str) -> Store:
    """The store of `tenant` beside the main one at `url`; it connects when it is first used.

    Of a SQLite file ``desk.db`` it is ``desk.tenants/NAME.db``; in PostgreSQL a schema whose name
    ends in ``__NAME``; ``memory:`` is one that nobody else has.
    """
    check_tenant(tenant)
    if tenant == DEFAULT_TENANT:
        return open_store(url)
    if url == "memory:":
        return open_store(url)
    path = sqlite_path(url)
    if path is None:
        return open_store(_in_schema(url, tenant))
    folder = path.with_name(f"{path.stem}.tenants")
    folder.mkdir(parents=True, exist_ok=True)
    return open_store(str(folder / f"{tenant}.db"))


def _in_schema(url: str, tenant: str) -> str:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    # The database cuts off names beyond 63 characters, and a schema may have 48.
    options["schema"] = f"{options.get('schema') or 'ekiden'}__{tenant}"
    return urlunsplit(parts._replace(query=urlencode(options)))
