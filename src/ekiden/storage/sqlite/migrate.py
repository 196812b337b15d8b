"""The format of the file: numbered migrations, each run once, under a lock.

The format version is the number of the last migration that ran (`PRAGMA user_version`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import apsw

from ekiden.core.errors import StoreEmpty, StoreReadOnly, StoreUnavailable
from ekiden.core.roles import Clock
from ekiden.storage.formats import Migration, check_applied, check_newer, load_migrations
from ekiden.storage.sqlite.connection import LeaseClock, query

FOLDER = Path(__file__).parent / "migrations"
APPLICATION_ID = 0x454B4944
"""Marks the file as ours: `EKID`."""
MIGRATIONS_TABLE = (
    "CREATE TABLE migrations ("
    "number INTEGER PRIMARY KEY, checksum TEXT NOT NULL, works_with INTEGER) STRICT"
)


@cache
def shipped() -> tuple[Migration, ...]:
    """The migrations of this Ekiden, in order."""
    return load_migrations(FOLDER)


def migrate(
    db: apsw.Connection, where: str, migrations: Sequence[Migration], *, create: bool = True
) -> int:
    """Bring the file to the newest format and return its number; without `create`, `StoreEmpty` if
    it has no tables.

    A newer format that works with ours stays as it is. Two processes may call this at once: the
    second waits and finds nothing to do. Raises `StoreTooNew`, `StoreTooOld`, `MigrationChanged`,
    `StoreUnavailable` (another program's file), `apsw.Error`.
    """
    known = migrations[-1].number
    current = check_format(db, where, migrations, may_be_newer=True)
    if current >= known:
        return current
    if current == 0 and not create:
        raise StoreEmpty(where, "it has no tables")
    db.execute("BEGIN IMMEDIATE")
    try:
        current = check_format(db, where, migrations, may_be_newer=True)
        if current == 0:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(MIGRATIONS_TABLE)
        for migration in migrations:
            if migration.number > current:
                db.execute(migration.sql)
                db.execute(
                    "INSERT INTO migrations (number, checksum, works_with) VALUES (?, ?, ?)",
                    (migration.number, migration.checksum, migration.works_with),
                )
        db.execute(f"PRAGMA user_version = {max(known, current)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return max(known, current)


def check_readable(db: apsw.Connection, where: str, migrations: Sequence[Migration]) -> None:
    """`StoreEmpty`, and `StoreReadOnly` for an older format, which only writing brings up to date;
    raises as `migrate` does."""
    current = check_format(db, where, migrations, may_be_newer=True)
    if current == 0:
        raise StoreEmpty(where, "it has no tables")
    if current < migrations[-1].number:
        known = migrations[-1].number
        raise StoreReadOnly(
            where, f"it has format {current}, and must be migrated to {known} first"
        )


def adopt_boot(db: apsw.Connection, lease_clock: LeaseClock, clock: Clock) -> int:
    """Make the stored times mean something on this run of the machine; wall time minus lease
    clock, in milliseconds, as it was for the first who did this.

    After a restart of the machine every lease is void, for its owner is dead, and delays go on
    by the wall clock.
    """
    boot, offset_ms = _stored_boot(db)
    if boot == lease_clock.boot:
        return offset_ms
    db.execute("BEGIN IMMEDIATE")
    try:
        boot, offset_ms = _stored_boot(db)
        if boot != lease_clock.boot:
            old_offset_ms, offset_ms = offset_ms, clock.now_us() // 1000 - lease_clock.now_ms()
            db.execute(
                "UPDATE sessions SET owner = NULL, lease_until = NULL"
                " WHERE owner IS NOT NULL OR lease_until IS NOT NULL"
            )
            db.execute(
                # A taken message is due at once, since its owner is dead. The times of the others
                # are moved to the new lease clock, which began at zero again.
                "UPDATE messages SET owner = NULL, due_ms = iif(owner IS NULL, due_ms + ?1, 0),"
                " expires_ms = expires_ms + ?1 WHERE state = 'open'",
                (old_offset_ms - offset_ms,),
            )
            db.execute("DELETE FROM machine")
            db.execute("INSERT INTO machine VALUES (?, ?)", (lease_clock.boot, offset_ms))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return offset_ms


def boot_offset(db: apsw.Connection, lease_clock: LeaseClock) -> int | None:
    """What `adopt_boot` gives if there is nothing to be changed; `None` if the stored times belong
    to another run of the machine, so that every lease is void."""
    boot, offset_ms = _stored_boot(db)
    return offset_ms if boot == lease_clock.boot else None


def _stored_boot(db: apsw.Connection) -> tuple[str, int]:
    for boot, offset_ms in db.execute("SELECT boot, offset_ms FROM machine"):
        return str(boot), int(offset_ms)
    return "", 0


def check_format(
    db: apsw.Connection,
    where: str,
    migrations: Sequence[Migration],
    *,
    may_be_newer: bool = False,
) -> int:
    """The format of the file, 0 if it is new; raises as `migrate` does.

    With `may_be_newer` a format that works with the newest one of `migrations` is fine, too.
    """
    if db.in_transaction:
        return _format(db, where, migrations, may_be_newer=may_be_newer)
    # One transaction: another process may be making the tables, and half of them look like those of
    # another program.
    db.execute("BEGIN")
    try:
        return _format(db, where, migrations, may_be_newer=may_be_newer)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _format(
    db: apsw.Connection, where: str, migrations: Sequence[Migration], *, may_be_newer: bool
) -> int:
    application = _pragma(db, "application_id")
    if application == 0 and not query(db, "SELECT 1 FROM sqlite_schema LIMIT 1"):
        return 0
    if application != APPLICATION_ID:
        raise StoreUnavailable(
            f"{where} is an SQLite database of another program: name another file"
        )
    current, known = _pragma(db, "user_version"), migrations[-1].number
    if current > known:
        works = "SELECT number, works_with FROM migrations"
        ran = dict(query(db, works)) if may_be_newer else {}
        check_newer(where, known=known, ran=ran, found=current)
    check_applied(where, migrations, dict(query(db, "SELECT number, checksum FROM migrations")))
    return current


def _pragma(db: apsw.Connection, name: str) -> int:
    ((value,),) = query(db, f"PRAGMA {name}")
    return int(value)
