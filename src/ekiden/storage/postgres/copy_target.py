"""Targets of copies: PostgreSQL schemas filled from SQLite stores; `pg_dump` and `pg_restore`."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.stored_data import (
    CopyDiffers,
    NotCopyable,
    StoreNotEmpty,
    StoreUnfinished,
    ToolMissing,
)
from ekiden.core.values import dumps, new_id
from ekiden.storage.copying import MARK, TABLES, Numbers, Row, TableName
from ekiden.storage.postgres.connection.address import PostgresAddress
from ekiden.storage.postgres.connection.errors import UNIQUE_VIOLATION, UNSTORABLE
from ekiden.storage.postgres.copy_rows import count_sql, read_mark, to_schema, written_columns
from ekiden.storage.postgres.migrate import migrate
from ekiden.storage.postgres.snapshot import (
    TIMEOUT_S,
    connect_for_copying,
    translate_errors,
)

T = TypeVar("T")

_LARGEST = 10**18 - 1
"""The largest number in a cursor."""
_MARK = "insert into documents (collection, key, body) values ($1, $2, $3)"
_UNMARK = "delete from documents where collection = $1 and key = $2"
_HOLD_MARK = "select from documents where collection = $1 and key = $2 for update"
_REMOVE = """
truncate sessions, events, steps, messages, search_spaces, search_entries restart identity;
alter sequence free_events restart;
delete from documents"""
_NUMBERED = {
    "sessions_num_seq": "select max(num) from sessions",
    "messages_id_seq": "select max(id) from messages",
    "search_spaces_num_seq": "select max(num) from search_spaces",
    "search_entries_id_seq": "select max(id) from search_entries",
    "free_events": "select max(seq) from events where session = 0",
}


class PostgresTarget:
    """A schema that is filled; `async with` connects, and brings it to the newest format.

    From `mark` to `finish`, other processes refuse to open it. Each page is one transaction with
    one COPY.
    """

    def __init__(self, address: PostgresAddress, *, source: str = "") -> None:
        self.address = address
        self._source = source
        self.url = address.shown
        self._connection: Any = None
        self._owner = new_id("cpy")
        self._events = 0
        self._place = 0
        """The position of the next event in the feed."""

    async def __aenter__(self) -> Self:
        self._connection = await connect_for_copying(self.address)
        try:
            await self._run(migrate(self._connection, self.address))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._connection.terminate()

    def expect_events(self, count: int) -> None:
        """Reserve the positions -count to -1 in the feed for copied events: they come before all
        later events, whose positions are transaction numbers."""
        self._events = count
        self._place = -count

    def cursor(self, rank: int) -> str:
        """The feed cursor after the first `rank` copied events."""
        return f"{rank - self._events - 1}.{_LARGEST}.{_LARGEST}"

    async def write(self, table: TableName, rows: Sequence[Row]) -> None:
        """Add all rows or none. Raises `NotCopyable` for rows that cannot be stored here, and
        `CopyDiffers` if another copy took the schema over."""
        try:
            records = to_schema(table, rows, first_place=self._place)
        except OverflowError as exc:
            raise self._not_copyable(table, exc) from exc

        async def work() -> None:
            await self._check_mark(self._connection)
            await self._connection.copy_records_to_table(
                table,
                records=records,
                columns=written_columns(table),
                schema_name=self.address.schema,
                timeout=TIMEOUT_S,
            )

        await self._transact(work, table)
        if table == "events":
            self._place += len(rows)

    async def number(self, numbers: Numbers) -> None:
        """Continue after the highest numbers of the source, and analyze the tables."""
        given = (
            numbers.sessions,
            numbers.messages,
            numbers.search_spaces,
            numbers.search_entries,
            numbers.free_events,
        )

        async def work() -> None:
            await self._check_mark(self._connection)
            for (sequence, highest), last in zip(_NUMBERED.items(), given, strict=True):
                found = await self._connection.fetchval(highest, timeout=TIMEOUT_S)
                number = max(last, found or 0)
                if number > 0:
                    await self._connection.execute("select setval($1, $2)", sequence, number)

        await self._transact(work)
        await self.analyze()

    async def analyze(self) -> None:
        """Update the server's statistics, which its plans need after many new rows."""
        tables = ", ".join(TABLES)
        await self._run(self._connection.execute(f"analyze {tables}", timeout=TIMEOUT_S))

    async def mark(self, connection: Any, *, resume: bool) -> None:
        """Mark the schema as an unfinished copy of its source, within a transaction.

        Raises `StoreNotEmpty`, also for a copy of another source, and `StoreUnfinished` if it
        already has a mark; with `resume` the contents of that copy are removed instead.
        """
        await connection.execute(_HOLD_MARK, *MARK)
        mark = await read_mark(connection)
        if mark is None:
            for table in TABLES:
                count = await connection.fetchval(count_sql(table), timeout=TIMEOUT_S)
                if count:
                    raise StoreNotEmpty(self.url, f"{count} {table.replace('_', ' ')}")
        else:
            self.check_mark(mark, resume=resume)
            await connection.execute(_REMOVE, timeout=TIMEOUT_S)
        body = dumps({"v": 1, "source": self._source, "owner": self._owner})
        await connection.execute(_MARK, *MARK, body)

    def check_mark(self, mark: Mapping[str, Any], *, resume: bool) -> None:
        """Raise `StoreUnfinished` without `resume`, and `StoreNotEmpty` for a copy of another
        source."""
        if not resume:
            raise StoreUnfinished(self.url, source=str(mark["source"]))
        if mark["source"] != self._source:
            found = f"an unfinished copy of {mark['source']}, not of {self._source}"
            raise StoreNotEmpty(self.url, found)

    async def finish(self, connection: Any) -> None:
        """Remove the mark, within a transaction. Raises `CopyDiffers` if another copy set it."""
        await self._check_mark(connection)
        await connection.execute(_UNMARK, *MARK)

    async def _check_mark(self, connection: Any) -> None:
        mark = await read_mark(connection, hold=True)
        if mark is None or mark["owner"] != self._owner:
            raise CopyDiffers(self.url, "another copy took it over")

    async def _transact(
        self, work: Callable[[], Awaitable[T]], table: TableName = "documents"
    ) -> T:
        async def run() -> T:
            async with self._connection.transaction():
                return await work()

        try:
            return await self._run(run())
        except Exception as exc:
            if isinstance(exc.__cause__, UNIQUE_VIOLATION):
                raise CopyDiffers(self.url, f"another process writes to {table}") from exc
            if isinstance(exc.__cause__, UNSTORABLE):
                raise self._not_copyable(table, exc.__cause__) from exc
            raise

    def _not_copyable(self, table: str, exc: BaseException) -> NotCopyable:
        why = str(exc).partition("\n")[0]
        return NotCopyable(f"this into {self.url}", f"a row of the table {table}: {why}")

    async def _run(self, work: Awaitable[T]) -> T:
        return await translate_errors(self.address, work)


async def in_one_transaction(
    targets: Sequence[PostgresTarget], work: Callable[[PostgresTarget, Any], Awaitable[None]]
) -> None:
    """Call `work` for each of these schemas of one database, with the same connection, in one
    transaction."""
    first = targets[0].address
    connection = await connect_for_copying(first)

    async def run() -> None:
        async with connection.transaction():
            for target in targets:
                await connection.execute(f'set local search_path = "{target.address.schema}"')
                await work(target, connection)

    try:
        await translate_errors(first, run())
    finally:
        connection.terminate()


ToolName = Literal["pg_dump", "pg_restore"]

_ENDING_S: Final = 10.0
_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)")
_OPTIONS: Final = frozenset(
    {
        "host", "port", "user", "dbname", "passfile", "service", "sslmode", "sslcert", "sslkey",
        "sslrootcert", "sslcrl", "krbsrvname", "gssencmode", "channel_binding",
        "target_session_attrs", "connect_timeout",
    }
)  # fmt: skip
"""The options of a URL that these programs accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The address of the database for PostgreSQL's programs."""

    url: str
    """The URL for the command line, without a password."""
    environment: Mapping[str, str] = field(repr=False)
    """Environment variables with the password, which no message may repeat."""


def login_of(dsn: str) -> Login:
    """The login of a driver's URL."""
    parts = urlsplit(dsn)
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    secret = options.get("password") or unquote(password)
    # The driver accepts `database` for `dbname`, and any setting of the server as an option.
    renamed = {"dbname" if name == "database" else name: text for name, text in options.items()}
    kept = {name: text for name, text in renamed.items() if name in _OPTIONS}
    query = urlencode(kept, quote_via=quote, safe="/")
    place = f"{user}@{hosts}" if user else hosts
    url = f"postgresql://{place}{parts.path}" + (f"?{query}" if query else "")
    return Login(url=url, environment={"PGPASSWORD": secret} if secret else {})


def dump_arguments(login: Login, schemas: Sequence[str], file: Path) -> list[str]:
    """The arguments of `pg_dump`."""
    return [
        "--format=custom",
        "--no-owner",
        "--no-privileges",
        *(f'--schema="{schema}"' for schema in schemas),
        f"--file={file}",
        f"--dbname={login.url}",
    ]


def restore_arguments(login: Login, file: Path) -> list[str]:
    """The arguments of `pg_restore`."""
    return [
        "--single-transaction",
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
        f"--dbname={login.url}",
        str(file.absolute()),
    ]


async def find_tool(name: ToolName, *, needed: int, by_hand: Sequence[str]) -> str:
    """The path of a program of version `needed` or newer. Otherwise raises `ToolMissing`, which
    shows the command with the arguments `by_hand`."""
    path = shutil.which(name)
    command = shlex.join([name, *by_hand])
    if path is None:
        raise ToolMissing(name, "it is not in PATH", needed=needed, command=command)
    found = _VERSION.search(await run_tool([path, "--version"]))
    if found is None or int(found[1]) < needed:
        version = "an unknown version" if found is None else f"version {found[1]}"
        problem = f"{path} has {version}, and the server {needed}"
        raise ToolMissing(name, problem, needed=needed, command=command)
    return path


async def run_tool(command: Sequence[str], login: Login | None = None) -> str:
    """The output of a program; `StoreUnavailable` with its first error if it fails. A cancellation
    ends the program."""
    environment = {**os.environ, **(login.environment if login else {}), "LC_ALL": "C"}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as exc:
        raise StoreUnavailable(f"cannot run {command[0]}: {exc.strerror or exc}") from exc
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _ENDING_S)
        if process.returncode is None:
            process.kill()
        raise
    if process.returncode:
        raise StoreUnavailable(_failure(command, process.returncode, err, login))
    return out.decode("utf-8", "replace")


def _failure(command: Sequence[str], code: int, err: bytes, login: Login | None) -> str:
    """The first error; the following lines may repeat contents of rows."""
    name = Path(command[0]).name
    lines = err.decode("utf-8", "replace").splitlines()
    first = next((line for line in lines if "error:" in line), lines[0] if lines else "")
    reason = first.removeprefix(f"{name}: ").removeprefix("error: ") or f"exit code {code}"
    for secret in login.environment.values() if login else ():
        reason = reason.replace(secret, "…")
    return f"{name} failed: {reason}"
