"""All rows of a store in a form that every back end reads and writes: for copies of whole stores.

A row is a tuple of the columns that `TABLES` names, in that order. Text is Python text, JSON is the
text that is stored, times are integers since 1970, a vector is little-endian float32. So a row that
was read from one back end and written to another is read from there as the same row.

What is not copied, because it means nothing elsewhere: leases of sessions and of messages (who had
one is not there; all can be claimed at once), the time at which a settled message would have been
due, tokens by which a back end knows its own last commit, and indexes, which are made anew.
"""

from __future__ import annotations

import marshal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

from ekiden.core.copy_errors import StoreNotEmpty, StoreUnfinished
from ekiden.core.errors import UserError
from ekiden.storage.base import Store

TableName: TypeAlias = Literal[
    "sessions", "events", "steps", "documents", "messages", "search_spaces", "search_entries"
]
StoreKind: TypeAlias = Literal["sqlite", "postgresql"]
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

WRITING: Final[tuple[TableName, ...]] = (
    "events", "steps", "documents", "search_spaces", "search_entries", "messages", "sessions",
)  # fmt: skip
"""In the order in which they are written: nobody can claim a session, or take a message, before
what belongs to it is there."""

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

NOTE: Final = ("ekiden.store", "finished")
"""Of the document that a tenant's store has after that, until the copy of all tenants ended."""

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
    first_place: int = 0
    """Of events in the feed; both are 0 if there is none."""
    last_place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMap:
    """Where the events of a source stand in the feed of a target.

    Within one kind of store the places stay, or move all by the same. Another kind has other
    places: there the events are numbered in their order.
    """

    kept: bool
    shift: int = 0
    """Added to a place, if places are kept, else to its rank from 1 on."""

    def place(self, place: int, rank: int) -> int:
        """The place of the event with that place and rank in the source."""
        return (place if self.kept else rank) + self.shift


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """What stands in a place into which something is to be copied."""

    identity: str
    """As `BulkSource.identity` tells."""
    holds: str = ""
    """What it has already; empty if nothing."""
    mark: Mapping[str, Any] | None = None
    note: Mapping[str, Any] | None = None
    beside: Sequence[str] = ()
    """As `BulkSource.beside` tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was looked at in a store as such, and what is wrong."""

    faults: Sequence[str]
    checked: Sequence[str]
    not_checked: Sequence[str]


class BulkSource(Protocol):
    """A store as it was at one moment, to be read as a whole; `async with` begins and ends that.

    It changes nothing. `StoreUnavailable`, `StoreTooNew`, and `NotCopyable` for what cannot be
    read. A store of an older format is read as it is.
    """

    kind: StoreKind
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
        """`engine`, `version`, `format`, the counts of all tables, `leases`: of sessions that
        somebody has, `taken`: messages that somebody has, and `unfinished`: the source of a copy
        that did not come to its end. `estimated` names the counts that are estimates, which some
        are of large tables unless they are to be `exact`."""
        ...

    async def numbers(self) -> Numbers:
        """The last numbers that were given."""
        ...

    async def beside(self, joint: str) -> Sequence[str]:
        """What the names of stores beside this one have after its own; `joint` stands between in
        names of schemas."""
        ...

    async def identity(self) -> str:
        """The same for the same store, however it is addressed."""
        ...

    async def state(self, joint: str) -> TargetState:
        """What stands here."""
        ...

    async def rank(self, cursor: str) -> int:
        """How many events stand in the feed up to this cursor; `UserError`."""
        ...

    async def examine(self, *, limit_s: float | None = None) -> Examination:
        """Look for damage, and for rows that belong to nothing. With `limit_s` only for what is
        found quickly, and no longer than that."""
        ...

    def view(self) -> Store:
        """As much of a store as `verify_audit` needs: `list`, `get` and `events`; `UserError` for a
        store of an older format."""
        ...


class BulkTarget(Protocol):
    """A store that is filled from another; `async with` connects and disconnects.

    Until `finish` it has a mark by which everybody else refuses it.
    """

    kind: StoreKind
    url: str

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def state(self, joint: str) -> TargetState:
        """What stands there, also when nothing does; it is not changed, nor need one connect."""
        ...

    async def begin(self, source: str, *, copy: str, resume: bool) -> bool:
        """Mark it as an unfinished copy of `source`; whether it had such a mark. `copy` is the same
        for all tenants.

        `StoreNotEmpty`, also for a copy of another source; `StoreUnfinished` if it has that mark
        already, unless with `resume`: then what is there is removed.
        """
        ...

    async def withdraw(self) -> None:
        """Take the mark away that this target has set, if it is there and nothing else is."""
        ...

    async def map_feed(self, kind: StoreKind, numbers: Numbers, events: int) -> FeedMap:
        """Where so many events of a source are going to stand."""
        ...

    def cursor(self, places: FeedMap, *, cursor: str, rank: int) -> str:
        """The cursor that means here what `cursor`, after `rank` events, means in the source."""
        ...

    async def write(self, table: TableName, rows: Sequence[Row]) -> None:
        """Add rows, all or none; `NotCopyable` for what cannot stand here, `CopyDiffers` if
        another copy took the store over."""
        ...

    async def number(self, numbers: Numbers) -> None:
        """Give no number again that was given in the source."""
        ...

    def reading(self) -> BulkSource:
        """The same store, to be read."""
        ...

    async def finish(self, *, alone: bool, note: Mapping[str, Any] | None = None) -> None:
        """Take the mark away, durably, and leave the note instead, if there is one. With `alone`
        the store is left as one single file, if it is one at all."""
        ...

    async def forget(self, *, alone: bool) -> None:
        """Take the note away."""
        ...


class Tally:
    """How many rows there are, and what is in them, in whatever order they come."""

    __slots__ = ("_columns", "_sum", "count")

    def __init__(self, table: TableName) -> None:
        names = TABLES[table]
        self._columns = [at for at, name in enumerate(names) if name not in _NOT_COMPARED]
        self._sum = 0
        self.count = 0

    def add(self, rows: Sequence[Row], *, ordered: bool) -> None:
        """Take rows in; if they are `ordered`, each with its rank."""
        total, columns, count = self._sum, self._columns, self.count
        for rank, row in enumerate(rows, start=count + 1):
            told = [row[at] for at in columns]
            if ordered:
                told.append(rank)
            digest = sha256(marshal.dumps(told, _FORM)).digest()
            total += int.from_bytes(digest)
        self._sum = total % (1 << 256)
        self.count = count + len(rows)

    @property
    def digest(self) -> str:
        """Of all rows, in hexadecimal."""
        return f"{self._sum:064x}"


def check_mark(where: str, mark: Mapping[str, Any], *, source: str, resume: bool) -> None:
    """`StoreUnfinished` unless the copy that left the mark is to be completed, and
    `StoreNotEmpty` if it was one of another source."""
    if mark["source"] != source and resume:
        raise StoreNotEmpty(where, f"an unfinished copy of {mark['source']}, not of {source}")
    if not resume:
        raise StoreUnfinished(where, source=str(mark["source"]))


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
            "open it once, with `ekiden doctor --store`, or copy it and look at the copy"
        )
