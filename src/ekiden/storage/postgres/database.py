"""The asyncpg driver and its errors; the connection pool, and writes that are sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, TypeVar

from ekiden.core.errors import EkidenError, StoreReadOnly, StoreUnavailable, UserError
from ekiden.storage.postgres.address import PostgresAddress
from ekiden.storage.values import closed_store

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

_BROKEN_JOINS = 9
"""How many connections may break while they join, before the error is raised."""

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

UNSTORABLE: tuple[type[BaseException], ...] = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)
"""Values that PostgreSQL cannot store: a key that is too long, a number that is too large."""

FORBIDDEN: tuple[type[BaseException], ...] = (
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
    if isinstance(exc, FORBIDDEN):
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


T = TypeVar("T")

CONNECT_S = 10.0
COMMAND_S = 30.0
ANSWER_S = 10.0
"""The time-out of a commit that waits for no lock: after it, the connection counts as lost."""
TRANSACTION_S = 20.0
"""A longer transaction is rolled back by the server, so that others that wait for its locks get
them before `COMMAND_S`. Servers before PostgreSQL 17 cannot do this."""
_HAS_TRANSACTION_TIMEOUT = 17
CLOSE_S = 5.0
_TRIES = 4
"""How often a transaction is run that the server rolls back in favour of another."""

_IDLE_S = 60.0
"""A connection that was idle for this time is closed: its network path may be gone."""
_AGE_S = 300.0
"""A connection that was kept for this time is returned to the driver's pool, which replaces it
after many statements."""
_RELEASE_S = 5.0
"""The time in which the driver's pool must reset or close a connection."""
SETTLE_S = 15.0
"""How long a write is sent again after its connection was lost."""
_FIRST_OWN_OID = 16384
"""Lower type ids are PostgreSQL's own types, which are the same in all databases."""
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that shares its knowledge of PostgreSQL's types with later ones.

    Otherwise the driver asks the server about array types on each connection, which takes longer
    than anything else while a process starts.
    """

    _known: ClassVar[dict[frozenset[int], Any]] = {}

    async def _introspect_types(self, typeoids: Any, timeout: float) -> Any:  # noqa: ASYNC109
        oids = frozenset(typeoids)
        types = self._known.get(oids)
        if types is None:
            types, statement = await super()._introspect_types(typeoids, timeout)
            if max(oids) < _FIRST_OWN_OID:
                self._known[oids] = types
            return types, statement
        # After a statement without a name, the driver would prepare the query a second time.
        return types, SimpleNamespace(name="known")


class _Idle(NamedTuple):
    connection: Any
    since: float


class ConnectionPool:
    """Connections of the driver's pool, of which at most `size` are in use.

    Idle connections are kept here: the driver's pool resets a connection at each release, which
    costs a round trip.
    """

    def __init__(self, pool: Any, size: int, join: Callable[[Any], Awaitable[None]]) -> None:
        """`join` is called with each connection before its first use."""
        self.pool = pool
        self._join = join
        self._room = asyncio.Semaphore(size)
        self._idle: list[_Idle] = []
        """The last used connection is taken first, so that the others become idle and close."""
        self._out_since: dict[Any, float] = {}
        """The time at which each connection left the driver's pool."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self) -> Any:
        """A connection, to be returned with `give_back`; raises the driver's errors."""
        await self._room.acquire()
        try:
            while self._idle:
                connection, since = self._idle.pop()
                if _is_open(connection) and self._loop.time() - since <= _IDLE_S:
                    return connection
                self._close_later(connection)
            for is_last in (*[False] * _BROKEN_JOINS, True):
                connection = await self.pool.acquire()
                self._out_since[connection] = self._loop.time()
                try:
                    await self._join(connection)
                except BaseException as exc:
                    await self._release(connection)
                    # Another connection may work, but a time-out would take as long again.
                    if is_last or not is_broken(exc) or isinstance(exc, TimeoutError):
                        raise
                else:
                    return connection
            raise AssertionError("the last try returns or raises")
        except BaseException:
            self._room.release()
            raise

    async def give_back(self, connection: Any, *, is_sound: bool) -> None:
        """Return a connection; `is_sound` if it did not fail."""
        try:
            now = self._loop.time()
            is_young = now - self._out_since[connection] <= _AGE_S
            if is_sound and is_young and not self._closed and _is_open(connection):
                self._idle.append(_Idle(connection, now))
                if self._timer is None:
                    self._timer = self._loop.call_later(_IDLE_S, self._close_old)
            else:
                await self._release(connection)
        finally:
            self._room.release()

    async def close(self) -> None:
        """Close all connections; waits for those in use."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._idle:
            await self._release(self._idle.pop().connection)
        await asyncio.gather(*self._closing)
        await self.pool.close()

    async def _release(self, connection: Any) -> None:
        """Return a connection to the driver's pool, which closes a broken one; never fails."""
        del self._out_since[connection]
        with suppress(*FOREIGN):
            await self.pool.release(connection, timeout=_RELEASE_S)

    def _close_old(self) -> None:
        """Close connections that were idle for `_IDLE_S`, and set the timer for the next one."""
        oldest = self._loop.time() - _IDLE_S
        while self._idle and self._idle[0].since <= oldest:
            self._close_later(self._idle.pop(0).connection)
        self._timer = None
        if self._idle:
            self._timer = self._loop.call_at(self._idle[0].since + _IDLE_S, self._close_old)

    def _close_later(self, connection: Any) -> None:
        """Close a connection in a task."""
        task = self._loop.create_task(self._close(connection))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, connection: Any) -> None:
        with suppress(*FOREIGN):
            await connection.close(timeout=_RELEASE_S)
        await self._release(connection)


def _is_open(connection: Any) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False  # The driver's pool has closed it.


async def _nothing(connection: Any) -> None:
    """Leave the connection as it is."""


class Database:
    """One schema of one database, through a pool; the driver's errors are translated.

    A pool belongs to the event loop that created it. When a program uses the store in another loop
    after the first one ended, as successive calls of `asyncio.run` do, a new pool is created.
    """

    def __init__(
        self,
        address: PostgresAddress,
        *,
        min_size: int,
        max_size: int,
        prepare: Callable[[Any], Awaitable[None]] = _nothing,
        join: Callable[[Any], Awaitable[None]] = _nothing,
    ) -> None:
        self.address = address
        self._sizes = (min_size, max_size)
        self._prepare = prepare
        """Called with the first connection, for the migrations."""
        self._join = join
        """Called with each connection of the pool before its first use."""
        self._pool: ConnectionPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self.closed = False

    async def open(self) -> None:
        """Connect and prepare; a second call does nothing."""
        self.closed = False
        await self._ready()

    async def close(self) -> None:
        """Disconnect, after `CLOSE_S` by force; later calls are refused until `open`."""
        self.closed = True
        async with self._opening:
            pool, self._pool = self._pool, None
        if pool is None or self._loop is not asyncio.get_running_loop():
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await pool.close()
        except FOREIGN:
            pool.pool.terminate()

    def refuse_if_closed(self) -> None:
        """Raise `StoreUnavailable` after `close`."""
        if self.closed:
            raise closed_store(self.address.shown)

    async def connect(self) -> Any:
        """A connection outside the pool, which the caller closes."""
        self.refuse_if_closed()
        try:
            return await asyncpg.connect(**self._settings())
        except FOREIGN as exc:
            raise self._error(exc, sent=False) from exc

    async def query(self, sql: str, *args: Any, repeatable: bool = False) -> list[Any]:
        """The rows of one statement, which is a transaction of its own.

        A `repeatable` statement, which must be idempotent, is sent again on a new connection if the
        first one breaks.
        """

        async def run(connection: Any) -> list[Any]:
            rows: list[Any] = await connection.fetch(sql, *args)
            return rows

        try:
            return await self.run(run)
        except ConnectionLost:
            if not repeatable:
                raise
        return await self.run(run)

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """The result of `work`, which runs in one transaction; an error rolls it back."""

        async def run(connection: Any) -> T:
            async with _transaction(connection):
                return await work(connection)

        return await self.run(run)

    async def run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """The result of `work` with a connection of the pool.

        `work` is called again if the server rolled it back to end a deadlock. Raises
        `ConnectionLost` if the connection broke, and `StoreUnavailable` if none could be opened.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                async with self._connection() as connection:
                    return await work(connection)
            except ROLLED_BACK as exc:
                if not tries_left:
                    raise self._error(exc, sent=True) from exc
            except FOREIGN as exc:
                raise self._error(exc, sent=True) from exc
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        pool = await self._ready()
        try:
            connection = await pool.take()
        except FOREIGN as exc:
            raise self._error(exc, sent=False) from exc
        is_sound = False
        try:
            yield connection
            is_sound = True
        finally:
            await pool.give_back(connection, is_sound=is_sound)

    async def _ready(self) -> ConnectionPool:
        if self._pool is not None and self._loop is asyncio.get_running_loop():
            return self._pool
        self.refuse_if_closed()
        self.bind_loop()
        async with self._opening:
            self.refuse_if_closed()
            if self._pool is None:
                self._pool = await self._open_pool()
            return self._pool

    def bind_loop(self) -> asyncio.AbstractEventLoop:
        """Bind the pool to the running event loop, and return the loop. Raises `UserError` if
        another loop still uses it."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return loop
        if self._loop is not None and not self._loop.is_closed():
            raise UserError(
                f"the store {self.address.shown} is in use by another event loop; "
                "give each thread a store of its own"
            )
        self._loop, self._pool, self._opening = loop, None, asyncio.Lock()
        return loop

    async def _open_pool(self) -> ConnectionPool:
        pool = asyncpg.create_pool(
            min_size=self._sizes[0], max_size=self._sizes[1], reset=_no_reset, **self._settings()
        )
        sent = False
        try:
            await pool
            async with pool.acquire() as connection:
                sent = True
                await self._prepare(connection)
        except BaseException as exc:
            pool.terminate()
            if isinstance(exc, FOREIGN):
                raise self._error(exc, sent=sent) from exc
            raise
        return ConnectionPool(pool, self._sizes[1], self._join)

    def _settings(self) -> dict[str, Any]:
        return {
            "dsn": self.address.dsn,
            "connection_class": _Connection,
            "timeout": CONNECT_S,
            "command_timeout": COMMAND_S,
            "server_settings": {
                "application_name": f"ekiden:{self.address.schema}",
                "search_path": f'"{self.address.schema}"',
                "synchronous_commit": "on",
                # Our statements are written for their indexes. Without this the server may sort all
                # ready sessions to find the first one, as long as it estimates that there are few.
                "random_page_cost": "1",
                # Planning each statement again takes a third of the server's time.
                "plan_cache_mode": "force_generic_plan",
                # Our statements must see what others committed while they waited for a lock.
                "default_transaction_isolation": "read committed",
                # A process that was paused within a transaction must not keep its locks.
                "idle_in_transaction_session_timeout": "10s",
            },
        }

    def _error(self, exc: BaseException, *, sent: bool) -> EkidenError:
        return translated(exc, self.address.shown, sent=sent)


@asynccontextmanager
async def _transaction(connection: Any) -> AsyncIterator[None]:
    """A transaction of at most `TRANSACTION_S`.

    `idle_in_transaction_session_timeout` is not enough. A process that is paused after it asked the
    server to prepare a statement, and before it sent the arguments, is not idle for the server: its
    transaction would keep its locks until the process wakes or dies.
    """
    begin = "begin"
    if connection.get_server_version().major >= _HAS_TRANSACTION_TIMEOUT:
        # One message, so that the limit costs no round trip.
        begin += f"; set local transaction_timeout = {round(TRANSACTION_S * 1000)}"
    await connection.execute(begin)
    try:
        yield
    except BaseException:
        await connection.execute("rollback")
        raise
    await connection.execute("commit")


async def _no_reset(connection: Any) -> None:
    """Reset nothing: our statements change no settings, and a reset costs a round trip."""


async def send_until_answered(
    database: Database,
    send: Callable[[bool], Awaitable[T]],
    unknown: Callable[[str], OutcomeUnknown],
) -> T:
    """The result of `send`, which is called until the database answers.

    The argument of `send` tells whether an earlier attempt had an unknown outcome; then `send` must
    not change anything twice. After `SETTLE_S`, or when the store is closed, the error is that of
    `unknown`, with the reason. A write that was never sent is not repeated.
    """
    try:
        return await send(False)
    except ConnectionLost:
        pass
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_S
    pause = _FIRST_PAUSE_S
    while True:
        try:
            return await send(True)
        except OutcomeUnknown:
            raise
        except StoreUnavailable as exc:
            if database.closed or loop.time() + pause > deadline:
                raise unknown(str(exc)) from exc
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
