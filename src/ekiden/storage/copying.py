"""All rows of a store in a form that does not depend on its database; and a store's formats.

A row is a tuple of the columns that `TABLES` names, in that order. Text is Python text, JSON is the
text that is stored, times are integers since 1970, a vector is little-endian float32. So a row that
was read from SQLite and written to PostgreSQL is read from there as the same row.

Not copied, because they have no meaning in another store:

* leases of sessions and messages: the owners are not there, so all can be claimed at once; only
  messages that a session must answer stay with that session;
* the time at which a settled message would have been due;
* tokens by which a back end recognizes its own last commit;
* indexes, which are created anew.

A store's format is the number of the last migration that ran. The first migration is the baseline:
it creates all tables. The first line of a later migration that only adds tables or columns names
the oldest format whose code still works with the store::

    -- works with: 8

Processes that know format 8 can then use the store together with newer ones, as a rolling upgrade
needs. After a migration without this line, older code is refused, also by stores that it has open.
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

from ekiden.core.errors import MigrationChanged, StoreTooNew, StoreTooOld, UserError
from ekiden.storage.base import Store

TableName: TypeAlias = Literal[
    "sessions", "events", "steps", "documents", "messages", "search_spaces", "search_entries"
]
Row: TypeAlias = tuple[Any, ...]

TABLES: Final[Mapping[TableName, tuple[str, ...]]] = {
    "sessions": (
        "num", "id", "agent", "status", "outcome", "conclusion", "user_id", "meta", "cursor",
        "variables", "seq", "epoch", "wakes", "priority", "created_us", "updated_us", "ready_us",
    ),
    "events": (
        "place", "session", "seq", "type", "at_us", "agent", "step", "duration_us", "details",
        "items", "error", "digest",
    ),
    "steps": ("session", "key", "result"),
    "documents": ("collection", "key", "version", "updated_us", "body"),
    "messages": (
        "id", "queue", "priority", "due_ms", "attempts", "owner", "dedup_key", "body", "state",
        "key", "waiter", "session_id", "expires_ms", "created_us", "settled_us", "answer",
    ),
    "search_spaces": ("num", "name"),
    "search_entries": (
        "id", "space", "key", "updated_us", "model", "dims", "vector", "body", "text",
    ),
}  # fmt: skip
"""The columns of a copy. `place` is the position of an event in the feed, in the back end's own
numbers. `ready_us` is the position of a ready session in the queue; not all back ends store it."""

PARENTS: Final[tuple[tuple[TableName, str, TableName], ...]] = (
    ("events", "session", "sessions"),
    ("steps", "session", "sessions"),
    ("search_entries", "space", "search_spaces"),
)
"""Tables whose rows belong to a row of another table: table, column, parent table."""

OF_SESSIONS: Final = "session:%"
"""The owners of messages that a session answers, in any process, as a pattern for SQL `LIKE`."""

WRITING: Final[tuple[TableName, ...]] = (
    "events", "steps", "documents", "search_spaces", "search_entries", "messages", "sessions",
)  # fmt: skip
"""The order in which tables are written: no session can be claimed, and no message taken, before
its other rows exist."""

LEFT_TO_VERIFY: Final = (
    "references between rows, and changed contents (`ekiden store verify` checks both)"
)
"""The checks that a quick examination leaves out."""

JSON_COLUMNS: Final = frozenset(
    {"meta", "cursor", "variables", "details", "items", "result", "body", "answer"}
)
_MARSHAL_VERSION: Final = 2
"""The last format of `marshal` in which equal values always become equal bytes."""
_NOT_COMPARED: Final = frozenset({"place", "ready_us"})

MARK: Final = ("ekiden.store", "unfinished")
"""Collection and key of the document that marks a store as an unfinished copy."""

FOLLOWERS: Final[Mapping[str, str]] = {
    "sessions.search": "after",
    "mirrors": "cursor",
    "otel.exporters": "cursor",
}
"""Collections whose documents have a cursor of the feed, and the name of that field."""

PAGE_ROWS: Final = 2000
PAGE_BYTES: Final = 4_000_000
LAST_TIME_MS: Final = 253_402_300_799_000
"""The last second of the year 9999; later times are stored as this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The highest numbers that a store ever assigned, so that a copy assigns none of them again."""

    sessions: int = 0
    messages: int = 0
    search_spaces: int = 0
    search_entries: int = 0
    free_events: int = 0
    """The highest number of an event outside sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """The contents of the target of a copy before copying."""

    holds: str = ""
    """The first rows that were found, in words; empty if there are none."""
    mark: Mapping[str, Any] | None = None
    """The document `MARK`, if the target is an unfinished copy."""
    neighbours: Sequence[str] = ()
    """The result of `StoreSnapshot.neighbours`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The checks of a store that were made or left out, and the faults they found."""

    faults: Sequence[str]
    checked: Sequence[str]
    not_checked: Sequence[str]


class StoreSnapshot(Protocol):
    """A whole store as it was at one moment; `async with` begins and ends the read transaction.

    A snapshot changes nothing. Raises `StoreUnavailable`, `StoreTooNew`, and `NotCopyable` for
    rows that cannot be read.
    """

    url: str
    """The address for messages, without a password."""
    missing: Sequence[str]
    """Tables and columns that this store lacks, though its format has them. A table with missing
    columns is not read."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    def pages(self, table: TableName) -> AsyncIterator[Sequence[Row]]:
        """All rows of a table; events in the order of the feed."""
        ...

    async def facts(self, *, exact: bool = True) -> Mapping[str, Any]:
        """`engine`, `version`, `format`, the row counts of all tables, `leases` of sessions,
        `taken` (leased messages), and `unfinished`: the source of an incomplete copy.

        Without `exact`, the counts of large tables may be estimates; `estimated` names those.
        """
        ...

    async def neighbours(self, separator: str) -> Sequence[str]:
        """The suffixes of the other stores in this place whose names begin with this store's name:
        the tenants. `separator` joins name and suffix in schema names."""
        ...

    async def examine(self, *, limit_s: float | None = None) -> Examination:
        """Look for damage, and for rows without a parent. With `limit_s`, make only quick checks,
        and stop after this time."""
        ...

    def view(self) -> Store:
        """The snapshot as a store that can only be read, for `verify_audit`. Raises `UserError` for
        a store of an older format."""
        ...


class Tally:
    """The number of rows and a digest of their content, independent of their order."""

    __slots__ = ("_columns", "_is_ordered", "_sum", "count")

    def __init__(self, table: TableName) -> None:
        names = TABLES[table]
        self._is_ordered = table == "events"
        self._columns = [at for at, name in enumerate(names) if name not in _NOT_COMPARED]
        self._sum = 0
        self.count = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Count the rows. The digest of an event includes its rank, because the order of events
        matters."""
        total, columns, count = self._sum, self._columns, self.count
        for rank, row in enumerate(rows, start=count + 1):
            values = [row[at] for at in columns]
            if self._is_ordered:
                values.append(rank)
            digest = sha256(marshal.dumps(values, _MARSHAL_VERSION)).digest()
            # A sum, because the two back ends return rows in different orders.
            total += int.from_bytes(digest)
        self._sum = total % (1 << 256)
        self.count = count + len(rows)

    @property
    def digest(self) -> str:
        """The digest of all rows, in hexadecimal."""
        return f"{self._sum:064x}"


def describe_rows(facts: Mapping[str, Any], missing: Sequence[str]) -> str:
    """The first contents of a store, in words; empty if it has none."""
    if missing:
        return f"tables of a store that is not whole: {missing[0]} is missing"
    found = (f"{facts[table]} {table.replace('_', ' ')}" for table in TABLES if facts[table])
    return next(found, "")


def whole_tables(
    expected: Mapping[str, Collection[str]], found: Mapping[str, set[str]]
) -> tuple[dict[str, set[str]], list[str]]:
    """The tables that have all expected columns, and the names of missing tables and columns."""
    whole: dict[str, set[str]] = {}
    missing: list[str] = []
    for table, columns in expected.items():
        present = found.get(table, set())
        if not present:
            missing.append(f"the table {table}")
        elif lost := sorted(set(columns) - present):
            missing += [f"the column {name} of {table}" for name in lost]
        else:
            whole[table] = present
    return whole, missing


def row_size(row: Row) -> int:
    """The approximate size of a row in bytes."""
    return sum([len(value) for value in row if isinstance(value, str | bytes)], 64)


def check_current(where: str, *, found: int, known: int) -> None:
    """Raise `UserError` for a store of an older format: only its rows can be read."""
    if found != known:
        raise UserError(
            f"{where} has format {found}, and only {known} can be looked into without changing it: "
            "open it once, with `ekiden doctor --store`"
        )


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


def oldest_code(ran: Mapping[int, int | None]) -> int:
    """The oldest format whose code can use a store in which these migrations ran. The argument is
    that of `check_newer`."""
    return max((number if works is None else works for number, works in ran.items()), default=0)


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
