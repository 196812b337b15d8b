"""The formats of a store, and which Ekiden can use which.

A store's format is the number of the last migration that ran. The first migration is the baseline:
it makes all tables. A later one that only adds says in its first line the oldest format whose code
still works with the store::

    -- works with: 8

Then processes that know format 8 use the store together with newer ones, as a rolling upgrade
needs. After a migration that does not say so, older code is refused.
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
    """`StoreTooNew` if code that knows format `known` cannot use a store of format `found`.

    `ran`: the migrations that ran, each with the format that it works with. One that is missing, or
    says nothing, is taken for one that breaks.
    """
    for number in range(known + 1, found + 1):
        oldest = ran.get(number)
        if oldest is None or oldest > known:
            raise StoreTooNew(where, found=found, known=known)


def check_applied(where: str, migrations: Sequence[Migration], ran: Mapping[int, str]) -> None:
    """`StoreTooOld`, or `MigrationChanged` if a migration of which `ran` has the checksum is not
    the one in `migrations`."""
    baseline = migrations[0].number
    if ran and max(ran) < baseline:
        raise StoreTooOld(where, found=max(ran), oldest=baseline)
    # Development versions came to the same tables by smaller migrations.
    came_otherwise = any(number < baseline for number in ran)
    for migration in migrations[came_otherwise:]:
        if ran.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationChanged(where, migration.number)
