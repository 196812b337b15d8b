"""Addresses of PostgreSQL stores, with and without the password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from ekiden.core.errors import UserError

DEFAULT_SCHEMA = "ekiden"

_SCHEMES = ("postgresql", "postgres")
_HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.%]+\])(?::\d+)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_SHOWN = frozenset({"host", "port", "user", "dbname", "database", "sslmode", "schema"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """One schema of one database."""

    dsn: str = field(repr=False)
    """The URL for the driver, which may contain a password."""
    schema: str
    shown: str
    """The URL for messages, without a password."""


def parse_address(url: str, schema: str | None = None) -> PostgresAddress:
    """The address that `url` names, e.g. ``postgresql://me@host:5432/db?schema=ekiden``.

    The argument `schema` overrides that of the URL; the default is ``ekiden``. Raises `UserError`
    for other text; the message never repeats the part that may be a password.
    """
    parts = _split(url)
    login, _, hosts = parts.netloc.rpartition("@")
    # A password with an unescaped / ? # ends the host part too early.
    is_cut = "@" in parts.path + parts.query or bool(parts.fragment)
    if is_cut or not _HOSTS.fullmatch(hosts):
        raise _unreadable()
    options = parse_qsl(parts.query, keep_blank_values=True)
    chosen = schema or dict(options).get("schema") or DEFAULT_SCHEMA
    if not _SCHEMA.fullmatch(chosen):
        raise UserError(
            f"{chosen[:80]!r} cannot name a schema: use up to 48 letters, digits and _, "
            "not a digit first"
        )
    kept = [(name, value) for name, value in options if name != "schema"]
    shown = [(name, value) for name, value in kept if name in _SHOWN]
    if chosen != DEFAULT_SCHEMA:
        shown.append(("schema", chosen))
    user = login.partition(":")[0]
    place = f"{user}@{hosts}" if user else hosts
    return PostgresAddress(
        dsn=_join(parts.netloc, parts.path, kept),
        schema=chosen,
        shown=_join(place, parts.path, shown),
    )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        # The text of the ValueError repeats the URL.
        raise _unreadable() from None
    if parts.scheme not in _SCHEMES:
        raise UserError("the URL of a PostgreSQL store begins with postgresql://")
    return parts


def _join(place: str, path: str, options: list[tuple[str, str]]) -> str:
    query = urlencode(options, quote_via=quote, safe="/")
    return f"postgresql://{place}{path}" + (f"?{query}" if query else "")


def _unreadable() -> UserError:
    return UserError(
        "the URL of the PostgreSQL store cannot be read: it is postgresql://user:password@"
        "host:port/database, and / ? # @ % in a name or password are written %2F %3F %23 %40 %25"
    )
