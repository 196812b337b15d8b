"""All rows of a store in a form that does not depend on its database.

A row is a tuple of the columns that `TABLES` names, in that order. Text is Python text, JSON is the
text that is stored, times are integers since 1970, a vector is little-endian float32. So a row that
was read from SQLite and written to PostgreSQL is read from there as the same row.

What is not copied, because it means nothing elsewhere: leases of sessions and of messages (who had
one is not there; all can be claimed at once, but messages that a session is to answer stay with
it), the time at which a settled message would have been
due, tokens by which a back end knows its own last commit, and indexes, which are made anew.
"""

from __future__ import annotations

import marshal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

from ekiden.core.errors import UserError
from ekiden.storage.base import Store

TableName: TypeAlias = Literal[
    "sessions", "events", "steps", "documents", "messages", "search_spaces", "search_entries"
]
Row: TypeAlias = tuple[Any, ...]

TABLES: Final[Mapping[TableName, tuple[str, ...]]] = {
    "sessions": (
        "num", "id", "agent", "status", "outcome", "user_id", "meta", "cursor", "variables", "seq",
        "epoch", "wakes", "priority", "created_us", "updated_us", "ready_us",
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
"""What a copy has. `place` is where the event stands in the feed, in the back
end's own numbers; `ready_us` is a session's place in the line of those that are ready, which not
all back ends store."""

OF_SESSIONS: Final = "session:%"
"""Owners of messages that a session answers, in any process, as a pattern of SQL."""

WRITING: Final[tuple[TableName, ...]] = (
    "events", "steps", "documents", "search_spaces", "search_entries", "messages", "sessions",
)  # fmt: skip
"""In the order in which they are written: a session cannot be claimed, or a message taken, before
its other rows exist."""

LEFT_TO_VERIFY: Final = (
    "what rows belong to, and whether contents were changed, which `ekiden store verify` looks at"
)
"""What no quick examination finds."""

JSON_COLUMNS: Final = frozenset(
    {"meta", "cursor", "variables", "details", "items", "result", "body", "answer"}
)
_FORM: Final = 2
"""Of `marshal`: the last one in which equal values are always equal bytes."""
_NOT_COMPARED: Final = frozenset({"place", "ready_us"})

MARK: Final = ("ekiden.store", "unfinished")
"""Collection and key of the document that a store has while something is copied into it."""

FOLLOWERS: Final[Mapping[str, str]] = {
    "sessions.search": "after",
    "mirrors": "cursor",
    "otel.exporters": "cursor",
}
"""Collections whose documents have a cursor of the feed, and the name of that field."""

PAGE_ROWS: Final = 2000
PAGE_BYTES: Final = 4_000_000
LAST_TIME_MS: Final = 253_402_300_799_000
"""The last second of the year 9999: later ones count as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The last numbers that were given, so that none is given twice in a copy either."""

    sessions: int = 0
    messages: int = 0
    search_spaces: int = 0
    search_entries: int = 0
    free_events: int = 0
    """Of events of no session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """What a place already has into which a store is to be copied."""

    holds: str = ""
    """What it has already; empty if nothing."""
    mark: Mapping[str, Any] | None = None
    neighbours: Sequence[str] = ()
    """As `StoreSnapshot.neighbours` returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was looked at in a store as such, and what is wrong."""

    faults: Sequence[str]
    checked: Sequence[str]
    not_checked: Sequence[str]


class StoreSnapshot(Protocol):
    """A whole store as it was at one moment; `async with` begins and ends that.

    It changes nothing. `StoreUnavailable`, `StoreTooNew`, and `NotCopyable` for what cannot be
    read.
    """

    url: str
    """For messages; without any password."""
    missing: Sequence[str]
    """Tables and columns that a store of its format has, and this one has not. What is left of such
    a table is not read."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    def pages(self, table: TableName) -> AsyncIterator[Sequence[Row]]:
        """All rows of a table; events in the order of the feed."""
        ...

    async def facts(self, *, exact: bool = True) -> Mapping[str, Any]:
        """`engine`, `version`, `format`, the counts of all tables, `leases` of sessions, `taken`
        (leased messages), and `unfinished`: the source of an incomplete copy. `estimated` names the
        counts that are estimates; without `exact`, counts of large tables may be."""
        ...

    async def neighbours(self, joint: str) -> Sequence[str]:
        """What the names of stores beside this one have after its own; `joint` stands between in
        names of schemas."""
        ...

    async def examine(self, *, limit_s: float | None = None) -> Examination:
        """Look for damage, and for rows that belong to nothing. With `limit_s` only for what is
        found quickly, and no longer than that."""
        ...

    def view(self) -> Store:
        """As much of a store as `verify_audit` needs: `list`, `get` and `events`; `UserError` for a
        store of an older format."""
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
        """Take rows in; events, whose order matters, with their ranks."""
        total, columns, count = self._sum, self._columns, self.count
        for rank, row in enumerate(rows, start=count + 1):
            told = [row[at] for at in columns]
            if self._is_ordered:
                told.append(rank)
            digest = sha256(marshal.dumps(told, _FORM)).digest()
            total += int.from_bytes(digest)
        self._sum = total % (1 << 256)
        self.count = count + len(rows)

    @property
    def digest(self) -> str:
        """Of all rows, in hexadecimal."""
        return f"{self._sum:064x}"


def holding(facts: Mapping[str, Any], missing: Sequence[str]) -> str:
    """What a store has, in words; empty if nothing."""
    if missing:
        return f"tables of a store that is not whole: {missing[0]} is missing"
    found = (f"{facts[table]} {table.replace('_', ' ')}" for table in TABLES if facts[table])
    return next(found, "")


def weight(row: Row) -> int:
    """About how many bytes it is."""
    return sum([len(value) for value in row if isinstance(value, str | bytes)], 64)


def check_current(where: str, *, found: int, known: int) -> None:
    """`UserError` for a store of an older format, of which only the rows can be read."""
    if found != known:
        raise UserError(
            f"{where} has format {found}, and only {known} can be looked into without changing it: "
            "open it once, with `ekiden doctor --store`"
        )
