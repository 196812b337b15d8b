"""The format of a schema: numbered migrations, each run once, under a lock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ekiden.core.errors import (
    EngineTooOld,
    StoreEmpty,
    StoreTooNew,
    StoreUnavailable,
    UserError,
)
from ekiden.storage.copying import Migration, check_applied, check_newer, load_migrations
from ekiden.storage.postgres.connection.address import PostgresAddress
from ekiden.storage.postgres.connection.errors import LOCKED

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
        for migration in await _pending(connection, migrations, address):
            await connection.execute(migration.sql, timeout=_TIMEOUT_S)
            await connection.execute(
                "insert into migrations (number, name, checksum, works_with)"
                " values ($1, $2, $3, $4)",
                migration.number,
                migration.name,
                migration.checksum,
                migration.works_with,
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
