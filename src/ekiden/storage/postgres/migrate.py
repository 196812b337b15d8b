"""Bringing a schema to the format that this Ekiden writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ekiden.core.errors import EngineTooOld, MigrationChanged, StoreTooNew, UserError
from ekiden.storage.postgres.address import Address

NEEDED_MAJOR = 14
_PATIENCE_S = 600.0
"""How long one may wait for another process that migrates."""

_APPLIED = "select number, checksum from migrations order by number"
_BOOK = """
create table if not exists migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp()
)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered file of SQL; the highest number that ran is the format of a store."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def shipped() -> tuple[Migration, ...]:
    """The migrations of this Ekiden, in order."""
    folder = files("ekiden.storage.postgres").joinpath("migrations")
    found = [
        Migration(
            number=int(file.name.partition("_")[0]),
            name=file.name.removesuffix(".sql"),
            sql=file.read_text(encoding="utf-8"),
        )
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


async def migrate(
    connection: Any, address: Address, migrations: Sequence[Migration] | None = None
) -> None:
    """Run what has not run yet, all in one transaction, one process at a time.

    `EngineTooOld`, `StoreTooNew`, `MigrationChanged`, `UserError`; nothing is changed then.
    """
    migrations = shipped() if migrations is None else migrations
    check_engine(connection.get_server_version().major)
    check_encoding(connection.get_settings().server_encoding, address)
    if await connection.fetchval("select to_regclass('migrations')") is not None:
        applied = dict(await connection.fetch(_APPLIED))
        if not _missing(migrations, applied, address):
            return
    async with connection.transaction():
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 0))",
            f"ekiden/migrate/{address.schema}",
            timeout=_PATIENCE_S,
        )
        await connection.execute(f'create schema if not exists "{address.schema}"')
        await connection.execute(_BOOK)
        applied = dict(await connection.fetch(_APPLIED))
        for migration in _missing(migrations, applied, address):
            await connection.execute(migration.sql, timeout=_PATIENCE_S)
            await connection.execute(
                "insert into migrations (number, name, checksum) values ($1, $2, $3)",
                migration.number,
                migration.name,
                migration.checksum,
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


def check_encoding(encoding: str, address: Address) -> None:
    """`UserError` unless the database can hold all text."""
    if encoding != "UTF8":
        raise UserError(
            f"the database of {address.shown} has the encoding {encoding}, in which most text "
            "cannot be stored: use one that was created with encoding 'UTF8'"
        )


def _missing(
    migrations: Sequence[Migration], applied: Mapping[int, str], address: Address
) -> list[Migration]:
    known = migrations[-1].number
    newest = max(applied, default=0)
    if newest > known:
        raise StoreTooNew(address.shown, found=newest, known=known)
    for migration in migrations:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationChanged(address.shown, migration.number)
    return [migration for migration in migrations if migration.number not in applied]
