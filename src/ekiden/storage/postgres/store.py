"""The store in PostgreSQL, as one class of its parts; and its format, in numbered migrations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Self

from ekiden.core.errors import EngineTooOld, StoreEmpty, StoreTooNew, StoreUnavailable, UserError
from ekiden.storage.copying import (
    Migration,
    TableName,
    check_applied,
    check_newer,
    load_migrations,
    oldest_code,
)
from ekiden.storage.postgres.address import PostgresAddress, parse_address
from ekiden.storage.postgres.changes import Changes
from ekiden.storage.postgres.commits import Batches
from ekiden.storage.postgres.copy_rows import count_tables, refuse_unfinished
from ekiden.storage.postgres.database import FORBIDDEN, LOCKED, Database
from ekiden.storage.postgres.documents import Documents
from ekiden.storage.postgres.group_commit import CommitGroups
from ekiden.storage.postgres.journal import Feed, PostgresJournal, mend_feed
from ekiden.storage.postgres.queues import Queues
from ekiden.storage.postgres.search import Search, Vectors, find_extension
from ekiden.storage.postgres.sessions import ClaimQueue, Leases, PostgresSessions

_INFO = """
select current_setting('server_version') as version,
    (select max(number) from migrations) as format"""
_COUNTED: Final[tuple[TableName, ...]] = (
    "sessions", "events", "steps", "documents", "messages", "search_entries",
)  # fmt: skip
# One row, which all processes share; no index is written.
_TRY_TO_WRITE = """
insert into writes (token) values (0) on conflict (token) do update set result = null"""
_MAY_KNOW = "select has_function_privilege('pg_control_system()', 'execute') as may"
_CLUSTER = "(select system_identifier::text from pg_control_system())"
_PLACE = """
select concat_ws('/', {cluster}, oid, 'documents'::regclass::oid) as place
from pg_database where datname = current_database()"""


class PostgresStore(
    PostgresSessions, Leases, PostgresJournal, Feed, Documents, Queues, Batches, Search, Vectors
):
    """A `Store` in one schema of a PostgreSQL database, 14 or newer.

    `url` is ``postgresql://user:password@host:port/database``; the URL may also name the schema, as
    ``?schema=name``. The default schema is ``ekiden``. The first call connects to the database and
    migrates the tables. The store has a pool of at most `max_size` connections. While a caller
    waits for changes, one more connection listens for them. The store stays usable after an error
    or a broken connection: the next call reconnects::

        async with PostgresStore("postgresql://desk@db.example.com/desk") as store:
            await Runner.run(triage, "Where is my parcel?", session=Session("s1", store=store))
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str | None = None,
        create: bool = True,
        min_size: int = 0,
        max_size: int = 10,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        """With ``create=False``, a database that contains no store raises `StoreEmpty` when it is
        opened. `migrations` is for tests of other formats."""
        if not 0 <= min_size <= max_size or max_size < 1:
            raise UserError(
                f"a pool of {min_size} to {max_size} connections is not possible: "
                "0 <= min_size <= max_size and max_size >= 1"
            )
        address = parse_address(url, schema)

        async def prepare(connection: Any) -> None:
            await migrate(connection, address, migrations, create=create)
            await refuse_unfinished(connection, address.shown)
            await mend_feed(connection, address.schema)
            self._extension = await find_extension(connection)

        database = Database(
            address,
            min_size=min_size,
            max_size=max_size,
            prepare=prepare,
            join=lambda connection: join(connection, address, migrations),
        )
        super().__init__(database, Changes(database))
        self._commit_groups = CommitGroups(database)
        self._claim_queue = ClaimQueue(database)

    @property
    def url(self) -> str:
        return self._database.address.shown

    @property
    def shared(self) -> bool:
        return True

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._changes.close()
        await self._database.close()

    async def info(self) -> Mapping[str, Any]:
        found = await self._database.query(_INFO, repeatable=True)
        counts = await count_tables(partial(self._database.query, repeatable=True), _COUNTED)
        return {
            "engine": "postgresql",
            "url": self.url,
            "schema": self._database.address.schema,
            "vectors": self._vector_engine(),
            **found[0],
            **counts,
        }

    async def check_writable(self) -> None:
        await self._database.query(_TRY_TO_WRITE, repeatable=True)

    async def place(self) -> str:
        """The identity of the store.

        It consists of the ids of the cluster, the database and a table. A copy of the store has a
        different identity. `?` replaces the id of the cluster if the database user may not read it.
        """
        may = await self._database.query(_MAY_KNOW, repeatable=True)
        cluster = _CLUSTER if may[0]["may"] else "'?'"
        found = await self._database.query(_PLACE.format(cluster=cluster), repeatable=True)
        return str(found[0]["place"])

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<PostgresStore {self.url}>"


FOLDER = Path(__file__).parent / "migrations"
NEEDED_MAJOR = 14
_TIMEOUT_S = 600.0
"""How long to wait for another process that migrates, or that uses a table."""
_LOCK_MS = 2000
"""How long to wait for a table's lock at a time: all later statements queue behind the request."""
_PAUSE_S = 3.0
"""The pause between two requests, in which the queued statements run."""

APPLIED = "select number, checksum from migrations order by number"
"""The migrations that ran."""
_CREATE_MIGRATIONS = """
create table if not exists migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp(),
    works_with integer
)"""


# The lock of the gate ends with the statement, the other one with the connection.
_JOIN = """
select pg_advisory_xact_lock_shared(hashtextextended('ekiden/gate/' || $1, 0)),
    pg_advisory_lock_shared(hashtextextended('ekiden/use/' || $1, 0))"""
_CLOSE_GATE = "select pg_advisory_xact_lock(hashtextextended('ekiden/gate/' || $1, 0))"
_USERS = """
from pg_locks
where locktype = 'advisory' and granted and pid <> pg_backend_pid() and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32) | objid::bigint = hashtextextended('ekiden/use/' || $1, 0)"""
_END_USERS = f"select pg_terminate_backend(pid, 10000) {_USERS}"
_USERS_LEFT = f"select pid {_USERS}"

_HOLDERS = """
select pid, coalesce(nullif(application_name, ''), 'a program') as program, usename as role,
    coalesce(extract(epoch from clock_timestamp() - xact_start), 0)::bigint as seconds
from pg_stat_activity
where pid <> pg_backend_pid() and pid in (
    select pid from pg_locks join pg_class as place on place.oid = relation
    where granted and relnamespace = (select oid from pg_namespace where nspname = $1)
) order by xact_start limit 3"""


@cache
def shipped() -> tuple[Migration, ...]:
    """The migrations of this Ekiden, in order."""
    return load_migrations(FOLDER)


async def migrate(
    connection: Any,
    address: PostgresAddress,
    migrations: Sequence[Migration] | None = None,
    *,
    create: bool = True,
    timeout_s: float = _TIMEOUT_S,
) -> None:
    """Run the missing migrations in one transaction; one process does so at a time. Without
    `create`, raise `StoreEmpty` if no migration ever ran.

    A newer format that works with ours stays as it is. A table that is locked for long, for example
    by a backup, is requested again and again, with pauses in which other processes can work.
    Raises `EngineTooOld`, `StoreTooNew`, `StoreTooOld`, `MigrationChanged`, `UserError`, and
    `StoreUnavailable` after `timeout_s`; nothing is changed then.
    """
    migrations = shipped() if migrations is None else migrations
    check_engine(connection.get_server_version().major)
    check_encoding(connection.get_settings().server_encoding, address)
    exists = await connection.fetchval("select to_regclass('migrations')") is not None
    if not exists and not create:
        raise StoreEmpty(address.shown, f"the schema {address.schema} has no tables of Ekiden")
    if exists and not await _pending(connection, migrations, address):
        return
    until = time.monotonic() + timeout_s
    while True:
        try:
            return await _migrate(connection, migrations, address)
        except LOCKED as exc:
            if time.monotonic() + _PAUSE_S > until:
                raise await _locked_error(connection, address) from exc
        await asyncio.sleep(_PAUSE_S)


async def _migrate(
    connection: Any, migrations: Sequence[Migration], address: PostgresAddress
) -> None:
    async with connection.transaction():
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))",
            f"ekiden/migrate/{address.schema}",
            timeout=_TIMEOUT_S,
        )
        await connection.execute(f"set local lock_timeout = {_LOCK_MS}")
        await connection.execute(f'create schema if not exists "{address.schema}"')
        await connection.execute(_CREATE_MIGRATIONS)
        rows = await connection.fetch("select number, works_with from migrations")
        ran = {row["number"]: row["works_with"] for row in rows}
        pending = await _pending(connection, migrations, address)
        then = ran | {each.number: each.works_with for each in pending}
        if ran and oldest_code(then) > oldest_code(ran):
            await _end_users(connection, address)
        for migration in pending:
            await connection.execute(migration.sql, timeout=_TIMEOUT_S)
            await connection.execute(
                "insert into migrations (number, name, checksum, works_with)"
                " values ($1, $2, $3, $4)",
                migration.number,
                migration.name,
                migration.checksum,
                migration.works_with,
            )


async def join(
    connection: Any, address: PostgresAddress, migrations: Sequence[Migration] | None = None
) -> None:
    """Register the connection as a user of the store until it is closed, and check the format.

    A migration that does not work with older code first ends all registered connections, and none
    can be registered until it is committed. So no process writes in a format that it does not know,
    and nothing has to be checked later. Raises as `migrate` does.
    """
    await connection.execute(_JOIN, address.schema, timeout=_TIMEOUT_S)
    await _pending(connection, shipped() if migrations is None else migrations, address)


async def _end_users(connection: Any, address: PostgresAddress) -> None:
    """End the connections of other processes to the store, until the transaction is committed."""
    await connection.execute(_CLOSE_GATE, address.schema)
    try:
        await connection.execute(_END_USERS, address.schema, timeout=_TIMEOUT_S)
        # A false answer may also mean that a connection was closed before.
        left = [row["pid"] for row in await connection.fetch(_USERS_LEFT, address.schema)]
    except FORBIDDEN as exc:
        raise StoreUnavailable(
            f"{address.shown} cannot be migrated while processes with another database role use "
            "it, and the new format does not work with their version: stop them, and try again"
        ) from exc
    if left:
        raise StoreUnavailable(
            f"{address.shown} cannot be migrated, because connections of older processes did not "
            f"end: stop these processes of the server, and try again: {left}"
        )


async def _locked_error(connection: Any, address: PostgresAddress) -> StoreUnavailable:
    """The error that names the processes with locks on the tables."""
    holders = [
        f"{row['program']} (process {row['pid']} of the role {row['role']}, {row['seconds']} s ago)"
        for row in await connection.fetch(_HOLDERS, address.schema)
    ]
    return StoreUnavailable(
        f"{address.shown} cannot be migrated to the format of this version, because others use "
        f"its tables; the longest users: {', '.join(holders) or 'none now'}; wait for their "
        "end, of a backup for example, and try again"
    )


async def _pending(
    connection: Any, migrations: Sequence[Migration], address: PostgresAddress
) -> list[Migration]:
    """The migrations that have not run; raises as `missing_migrations`."""
    rows = await connection.fetch("select * from migrations")
    known = migrations[-1].number
    # Stores of development versions, which are refused, may lack the column.
    ran = {row["number"]: row.get("works_with") for row in rows}
    check_newer(address.shown, known=known, ran=ran, found=max(ran, default=0))
    applied = {row["number"]: row["checksum"] for row in rows if row["number"] <= known}
    return missing_migrations(migrations, applied, address)


def check_engine(major: int) -> None:
    """Raise `EngineTooOld` for a server without the features that our statements need."""
    if major < NEEDED_MAJOR:
        raise EngineTooOld(
            "PostgreSQL",
            found=str(major),
            needed=str(NEEDED_MAJOR),
            advice="upgrade the server, or name another one in the store's URL",
        )


def check_encoding(encoding: str, address: PostgresAddress) -> None:
    """Raise `UserError` unless the database can store all text."""
    if encoding != "UTF8":
        raise UserError(
            f"the database of {address.shown} has the encoding {encoding}, in which most text "
            "cannot be stored: use one that was created with encoding 'UTF8'"
        )


def missing_migrations(
    migrations: Sequence[Migration], applied: Mapping[int, str], address: PostgresAddress
) -> list[Migration]:
    """The migrations that have not run. Raises `StoreTooNew`, `StoreTooOld` or
    `MigrationChanged`."""
    known = migrations[-1].number
    newest = max(applied, default=0)
    if newest > known:
        raise StoreTooNew(address.shown, found=newest, known=known)
    check_applied(address.shown, migrations, applied)
    return [migration for migration in migrations if migration.number not in applied]
