"""The asyncpg driver, and its errors translated to Ekiden's."""

from __future__ import annotations

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
