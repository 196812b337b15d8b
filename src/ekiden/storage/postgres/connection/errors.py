"""The asyncpg driver, its errors translated to Ekiden's, and the addresses of stores."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from ekiden.core.errors import EkidenError, StoreReadOnly, StoreUnavailable, UserError

try:
    import asyncpg
except ModuleNotFoundError as exc:
    raise UserError(
        "PostgreSQL needs the asyncpg driver, which is not installed: "
        "pip install 'ekiden[postgres]'"
    ) from exc

__all__ = ["asyncpg"]


FOREIGN: tuple[type[BaseException], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""The errors of a driver call when the database or the network fails."""

ROLLED_BACK: tuple[type[BaseException], ...] = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
)
"""The transaction was rolled back in favour of another: it can be retried."""

LOCKED: tuple[type[BaseException], ...] = (
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
)
"""A lock is held by another transaction: nothing was changed."""

UNIQUE_VIOLATION: type[BaseException] = asyncpg.UniqueViolationError

WITHOUT_EXTENSION: tuple[type[BaseException], ...] = (
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFileError,
)
"""Errors of statements that use an extension which is missing or forbidden for the role."""

_BROKEN: tuple[type[BaseException], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.DatabaseDroppedError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

UNSTORABLE: tuple[type[BaseException], ...] = (
    asyncpg.DataError,
    asyncpg.ProgramLimitExceededError,
)
"""Values that PostgreSQL cannot store: a key that is too long, a number that is too large."""

_FORBIDDEN: tuple[type[BaseException], ...] = (
    asyncpg.InsufficientPrivilegeError,
    # A schema is invisible to a role that has no right to use it.
    asyncpg.InvalidSchemaNameError,
)


class Unreachable(StoreUnavailable):
    """No connection could be opened; a retry may succeed."""

    is_disconnected = True


class ConnectionLost(Unreachable):
    """The connection broke after the statement was sent: it may have been done or not."""


class OutcomeUnknown(StoreUnavailable):
    """It cannot be found out whether a write was stored."""

    def __init__(self, why: str, what: str, *, advice: str) -> None:
        super().__init__(f"{why}; whether {what} stored is not known: {advice}")


def is_broken(exc: BaseException) -> bool:
    """Whether the connection failed, so that the outcome of the statement is unknown."""
    return isinstance(exc, _BROKEN) and not isinstance(exc, UNSTORABLE)


def translated(exc: BaseException, where: str, *, sent: bool) -> EkidenError:
    """Our error for one of `FOREIGN`; `sent` tells whether the statement was sent."""
    reason = _first_line(exc)
    if isinstance(exc, asyncpg.ClientConfigurationError):
        return UserError(f"{where} is not a usable PostgreSQL URL: {reason}")
    if isinstance(exc, _FORBIDDEN):
        return UserError(f"the database role may not use {where} as a store: {reason}")
    if isinstance(exc, asyncpg.ReadOnlySQLTransactionError):
        return StoreReadOnly(where, reason)
    if isinstance(exc, UNSTORABLE):
        return UserError(f"this cannot be stored in {where}: {reason}")
    if not sent:
        is_disconnected = is_broken(exc) or isinstance(exc, asyncpg.TooManyConnectionsError)
        kind = Unreachable if is_disconnected else StoreUnavailable
        return kind(f"cannot reach {where}: {reason}")
    if is_broken(exc):
        return ConnectionLost(
            f"the connection to {where} was lost: {reason}; the store reconnects by itself"
        )
    if isinstance(exc, asyncpg.DiskFullError):
        return StoreUnavailable(
            f"the disk of {where} is full: make room and try again; "
            f"what was acknowledged is safe ({reason})"
        )
    return StoreUnavailable(f"{where} failed: {reason}")


def _first_line(exc: BaseException) -> str:
    """The first line of the error; PostgreSQL puts contents of rows into the following lines."""
    if isinstance(exc, asyncpg.InternalClientError):
        return "it broke while it was in use"  # The driver's own words are about its own parts.
    text = str(exc.args[0]) if isinstance(exc, asyncpg.PostgresError) and exc.args else str(exc)
    return text.partition("\n")[0] or type(exc).__name__


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
