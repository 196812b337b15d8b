"""Bringing a schema to the format that this Ekiden writes."""

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
from ekiden.storage.formats import Migration, check_applied, check_newer, load_migrations
from ekiden.storage.postgres.connection.address import PostgresAddress
from ekiden.storage.postgres.connection.errors import LOCKED

FOLDER = Path(__file__).parent / "migrations"
NEEDED_MAJOR = 14
_PATIENCE_S = 600.0
"""How long one may wait for another process that migrates, or for one that has a table."""
_LOCK_MS = 2000
"""How long to wait for a lock: all later statements queue behind it."""
_PAUSE_S = 3.0
"""In which they go on."""

APPLIED = "select number, checksum from migrations order by number"
"""What ran."""
_BOOK = """
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
    patience_s: float = _PATIENCE_S,
) -> None:
    """Run what has not run yet, all in one transaction, one process at a time; without `create`,
    `StoreEmpty` if nothing ever ran.

    A newer format that works with ours stays as it is. A table that is in use for long, for example
    by a backup, is waited for in short tries, between which other processes work.
    `EngineTooOld`, `StoreTooNew`, `StoreTooOld`, `MigrationChanged`, `UserError`, and
    `StoreUnavailable` after too many tries; nothing is changed then.
    """
    migrations = shipped() if migrations is None else migrations
    check_engine(connection.get_server_version().major)
    check_encoding(connection.get_settings().server_encoding, address)
    is_there = await connection.fetchval("select to_regclass('migrations')") is not None
    if not is_there and not create:
        raise StoreEmpty(address.shown, f"the schema {address.schema} has no tables of Ekiden")
    if is_there and not await _to_be_run(connection, migrations, address):
        return
    until = time.monotonic() + patience_s
    while True:
        try:
            return await _migrate(connection, migrations, address)
        except LOCKED as exc:
            if time.monotonic() + _PAUSE_S > until:
                raise await _locked(connection, address) from exc
        await asyncio.sleep(_PAUSE_S)


async def _migrate(
    connection: Any, migrations: Sequence[Migration], address: PostgresAddress
) -> None:
    async with connection.transaction():
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))",
            f"ekiden/migrate/{address.schema}",
            timeout=_PATIENCE_S,
        )
        await connection.execute(f"set local lock_timeout = {_LOCK_MS}")
        await connection.execute(f'create schema if not exists "{address.schema}"')
        await connection.execute(_BOOK)
        for migration in await _to_be_run(connection, migrations, address):
            await connection.execute(migration.sql, timeout=_PATIENCE_S)
            await _book(connection, migration)


async def _locked(connection: Any, address: PostgresAddress) -> StoreUnavailable:
    """Tells who is in the way."""
    holders = [
        f"{row['program']} (process {row['pid']} of the role {row['role']}, {row['seconds']} s ago)"
        for row in await connection.fetch(_HOLDERS, address.schema)
    ]
    return StoreUnavailable(
        f"{address.shown} cannot be migrated to the format of this version, because others use "
        f"its tables; the longest users: {', '.join(holders) or 'none now'}; wait for their "
        "end, of a backup for example, and try again"
    )


async def _to_be_run(
    connection: Any, migrations: Sequence[Migration], address: PostgresAddress
) -> list[Migration]:
    """Those that have not run; `StoreTooNew`, `StoreTooOld`, `MigrationChanged`."""
    booked = await connection.fetch("select * from migrations")
    known = migrations[-1].number
    # Stores of development versions, which are refused, may lack the column.
    ran = {row["number"]: row.get("works_with") for row in booked}
    check_newer(address.shown, known=known, ran=ran, found=max(ran, default=0))
    applied = {row["number"]: row["checksum"] for row in booked if row["number"] <= known}
    return missing_migrations(migrations, applied, address)


async def _book(connection: Any, migration: Migration) -> None:
    await connection.execute(
        "insert into migrations (number, name, checksum, works_with) values ($1, $2, $3, $4)",
        migration.number,
        migration.name,
        migration.checksum,
        migration.works_with,
    )


def check_engine(major: int) -> None:
    """`EngineTooOld` unless the server has what our statements need."""
    if major < NEEDED_MAJOR:
        raise EngineTooOld(
            "PostgreSQL",
            found=str(major),
            needed=str(NEEDED_MAJOR),
            advice="upgrade the server, or name another one in the store's URL",
        )


def check_encoding(encoding: str, address: PostgresAddress) -> None:
    """`UserError` unless the database can hold all text."""
    if encoding != "UTF8":
        raise UserError(
            f"the database of {address.shown} has the encoding {encoding}, in which most text "
            "cannot be stored: use one that was created with encoding 'UTF8'"
        )


def missing_migrations(
    migrations: Sequence[Migration], applied: Mapping[int, str], address: PostgresAddress
) -> list[Migration]:
    """Those that have not run; `StoreTooNew`, `StoreTooOld`, `MigrationChanged`."""
    known = migrations[-1].number
    newest = max(applied, default=0)
    if newest > known:
        raise StoreTooNew(address.shown, found=newest, known=known)
    check_applied(address.shown, migrations, applied)
    return [migration for migration in migrations if migration.number not in applied]
