"""The formats of a store, and which versions of Ekiden can use them.

A store's format is the number of the last migration that ran. The first migration is the baseline:
it creates all tables. The first line of a later migration that only adds tables or columns names
the oldest format whose code still works with the store::

    -- works with: 8

Processes that know format 8 can then use the store together with newer ones, as a rolling upgrade
needs. After a migration without this line, older code is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ekiden.core.errors import MigrationChanged, StoreTooNew, StoreTooOld

_WORKS_WITH = re.compile(r"-- works with: ([1-9][0-9]{0,8})\s*(?:\n|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered file of SQL."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def works_with(self) -> int | None:
        """The oldest format whose code can use a store in which this migration ran; `None`: only
        code that knows the migration can."""
        found = _WORKS_WITH.match(self.sql)
        return None if found is None else int(found[1])


def load_migrations(folder: Path) -> tuple[Migration, ...]:
    """The files `0008_name.sql`, `0009_…` of a folder, in order."""
    return tuple(
        Migration(
            number=int(file.name.partition("_")[0]),
            name=file.stem,
            sql=file.read_text("utf-8").replace("\r\n", "\n"),
        )
        for file in sorted(folder.glob("[0-9]*_*.sql"))
    )


def check_newer(where: str, *, known: int, ran: Mapping[int, int | None], found: int) -> None:
    """Raise `StoreTooNew` if code that knows format `known` cannot use a store of format `found`.

    `ran` has the migrations that ran, each with the oldest format that it works with. A migration
    that is missing there, or names no format, is assumed to break older code.
    """
    for number in range(known + 1, found + 1):
        oldest = ran.get(number)
        if oldest is None or oldest > known:
            raise StoreTooNew(where, found=found, known=known)


def check_applied(where: str, migrations: Sequence[Migration], ran: Mapping[int, str]) -> None:
    """Raise `StoreTooOld`, or `MigrationChanged` if a checksum in `ran` differs from that of the
    migration with this number."""
    baseline = migrations[0].number
    if ran and max(ran) < baseline:
        raise StoreTooOld(where, found=max(ran), oldest=baseline)
    # Development versions created the tables of the baseline with smaller migrations.
    skips_baseline = any(number < baseline for number in ran)
    for migration in migrations[skips_baseline:]:
        if ran.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationChanged(where, migration.number)
