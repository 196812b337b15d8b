"""Copies a SQLite store, with the stores of its tenants, to PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ekiden.audit import Verification, verify_audit
from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import CopyDiffers, SourceInUse, StoreNotEmpty
from ekiden.core.faults import fault_point
from ekiden.core.values import dumps, loads
from ekiden.project.copying.whole_stores import (
    CopiedTenant,
    CopyReport,
    CopyStep,
    Phase,
    Progress,
    check_source,
    file_at,
    refuse_other_tenants,
    shown,
    sqlite_snapshot,
    target_state,
    tenants_at,
)
from ekiden.project.stores import DEFAULT_TENANT, tenant_url
from ekiden.storage.copying import (
    FOLLOWERS,
    TABLES,
    WRITING,
    Numbers,
    Row,
    StoreSnapshot,
    TableName,
    Tally,
)

if TYPE_CHECKING:
    from ekiden.storage.postgres.snapshot import PostgresTarget
    from ekiden.storage.sqlite.copying import SqliteSnapshot


_BODY: Final = TABLES["documents"].index("body")


async def followed(
    rows: Sequence[Row], source: SqliteSnapshot, target: PostgresTarget
) -> Sequence[Row]:
    """Convert the event cursors in rows of documents to cursors of the target."""
    return [await _translated(row, source, target) if row[0] in FOLLOWERS else row for row in rows]


async def _translated(row: Row, source: SqliteSnapshot, target: PostgresTarget) -> Row:
    body = loads(row[_BODY])
    name = FOLLOWERS[row[0]]
    cursor = body.get(name) if isinstance(body, dict) else None
    if not isinstance(cursor, str):
        return row
    # A value that is no valid cursor in the source is copied unchanged.
    with suppress(UserError):
        body[name] = target.cursor(await source.rank(cursor))
    return (*row[:_BODY], dumps(body), *row[_BODY + 1 :])


async def copy_store(
    source: str,
    target: str,
    *,
    tenants: Collection[str] | None = None,
    resume: bool = False,
    final: bool = False,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy everything from a SQLite store to PostgreSQL, and compare the copy with the source.

    The copy of each tenant's store is a snapshot, and the source is not changed. All targets are
    first marked as unfinished. They cannot be used until everything is written, compared row by
    row, and the audit is verified. If the copy was killed, `resume` removes the copied rows and
    starts again from the same source, so that two snapshots are never mixed. With `final` every
    source is read again at the end and must be unchanged.

    Raises `StoreNotEmpty`, `StoreUnfinished`, `CopyDiffers`, `SourceInUse`, `NotCopyable`,
    `StoreUnavailable` and `UserError`. For example::

        report = await copy_store("desk.db", "postgresql://localhost/desk")
        print(report.rows, report.audit_ok)
    """
    began = time.monotonic()
    _check_direction(source, target)
    from ekiden.storage.postgres.address import parse_address
    from ekiden.storage.postgres.snapshot import PostgresTarget, in_one_transaction

    parts = []
    for name in await tenants_at(source, tenants):
        there, place = sqlite_snapshot(source, name), parse_address(tenant_url(target, name))
        to = PostgresTarget(place, source=there.url)
        parts.append(_Part(name=name, source=there, target=to, tell=progress))
    await _check_places(source, target, parts, resume=resume, final=final)
    targets = [part.target for part in parts]
    for each in targets:
        async with each:
            """Entering creates the tables."""
    await in_one_transaction(targets, partial(PostgresTarget.mark, resume=resume))
    fault_point("copy.begun")
    filled = [await _fill(part, final=final) for part in parts]
    if final:
        for part, (_, read) in zip(parts, filled, strict=True):
            await _check_unchanged(part, read)
    fault_point("copy.verified")
    await in_one_transaction(targets, PostgresTarget.finish)
    fault_point("copy.finished")
    return CopyReport(
        source=shown(source),
        target=shown(target),
        tenants=[tenant for tenant, _ in filled],
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The store of one tenant, and the target of its copy."""

    name: str
    source: SqliteSnapshot
    target: PostgresTarget
    tell: Progress | None

    def at(self, phase: Phase, done: int, total: int) -> None:
        """Report the progress."""
        if self.tell is not None:
            self.tell(CopyStep(tenant=self.name, phase=phase, done=done, total=total))


def _check_direction(source: str, target: str) -> None:
    """`UserError` unless the copy is from SQLite to PostgreSQL."""
    is_from_file, is_to_file = file_at(source) is not None, file_at(target) is not None
    if is_from_file and not is_to_file:
        return
    first, second = shown(source), shown(target)
    way = f"`ekiden store backup FILE --store '{first}'` and `ekiden store restore FILE --store"
    if is_from_file:
        way = f"from SQLite to SQLite use `ekiden store backup '{second}' --store '{first}'`"
    elif is_to_file:
        way = f"a PostgreSQL store is backed up with {way} postgresql://…`"
    else:
        way = f"from PostgreSQL to PostgreSQL use {way} '{second}'`"
    raise UserError(f"`ekiden store copy` goes from SQLite to PostgreSQL only: {way}")


async def _check_places(
    source: str, target: str, parts: Collection[_Part], *, resume: bool, final: bool
) -> None:
    """Raise the errors that would stop the copy, before anything is changed."""
    for part in parts:
        async with part.source as there:
            await check_source(there, final=final)
        state = await target_state(target, part.name)
        if state.mark is not None:
            part.target.check_mark(state.mark, resume=resume)
        elif state.holds:
            raise StoreNotEmpty(part.target.url, state.holds)
        if part.name == DEFAULT_TENANT:
            await refuse_other_tenants(target, state.neighbours, await tenants_at(source, None))


async def _fill(part: _Part, *, final: bool) -> tuple[CopiedTenant, Mapping[str, str]]:
    """Write all rows to a marked target and compare them; returns the result, and the digests of
    the source from `_reading_of`."""
    async with part.source as source, part.target as target:
        facts = await check_source(source, final=final)
        numbers = await source.numbers()
        written, read = await _write(part, facts)
        await target.number(numbers)
        fault_point("copy.written")
        audit = await _compare(part, written)
    tenant = CopiedTenant(
        name=part.name,
        counts={table: written[table].count for table in TABLES},
        digests={table: written[table].digest for table in TABLES},
        audit=audit,
        leases=facts["leases"],
        later=await _later(part.source, facts),
    )
    return tenant, _reading_of(read, numbers)


async def _write(
    part: _Part, facts: Mapping[str, Any]
) -> tuple[Mapping[TableName, Tally], Mapping[TableName, Tally]]:
    """The rows as they were written, and as they were read."""
    source, target = part.source, part.target
    target.expect_events(facts["events"])
    total, done = _rows(facts), 0
    tallies = {table: Tally(table) for table in WRITING}
    documents = Tally("documents")
    for table, tally in tallies.items():
        async for page in source.pages(table):
            rows = page
            if table == "documents":
                documents.add(page)
                rows = await followed(page, source, target)
            await target.write(table, rows)
            fault_point("copy.page")
            tally.add(rows)
            done += len(rows)
            part.at("copy", done, total)
    return tallies, {**tallies, "documents": documents}


async def _compare(part: _Part, written: Mapping[TableName, Tally]) -> Verification:
    """Read the target again. Raises `CopyDiffers` unless it has the written rows; returns the
    verification of its audit."""
    from ekiden.storage.postgres.snapshot import PostgresSnapshot

    total = sum(tally.count for tally in written.values())
    async with PostgresSnapshot(part.target.address) as copy:
        for table, found in (await _tallied(part, copy, total)).items():
            expected = written[table]
            if found.count != expected.count:
                problem = f"{table} has {found.count} rows, and {expected.count} were written"
                raise CopyDiffers(part.target.url, problem)
            if found.digest != expected.digest:
                raise CopyDiffers(part.target.url, f"rows of {table} are not as they were written")
        sessions = written["sessions"].count
        return await verify_audit(
            copy.view(), progress=lambda found: part.at("audit", found.sessions, sessions)
        )


async def _check_unchanged(part: _Part, read: Mapping[str, str]) -> None:
    """`SourceInUse` if the source has leases, or differs from the digests `read` before."""
    async with part.source as source:
        facts = await check_source(source, final=True)
        now = _reading_of(await _tallied(part, source, _rows(facts)), await source.numbers())
    for name, reading in now.items():
        if read[name] != reading:
            raise SourceInUse(source.url, f"something was written to its {name} during the copy")


async def _tallied(part: _Part, snapshot: StoreSnapshot, total: int) -> Mapping[TableName, Tally]:
    """The count and digest of all rows, by table."""
    tallies = {table: Tally(table) for table in TABLES}
    done = 0
    for table, tally in tallies.items():
        async for rows in snapshot.pages(table):
            tally.add(rows)
            done += len(rows)
            part.at("compare", done, total)
    return tallies


def _reading_of(tallies: Mapping[TableName, Tally], numbers: Numbers) -> Mapping[str, str]:
    """Counts and digests by table; two equal readings are of the same rows."""
    reading = {"numbers": dumps(asdict(numbers))}
    for table, tally in tallies.items():
        reading[table] = f"{tally.count} {tally.digest}"
    return reading


async def _later(source: StoreSnapshot, facts: Mapping[str, Any]) -> Mapping[str, int]:
    """How many rows each table of the source has gained or lost since `facts`."""
    async with source:
        now = await source.facts()
    return {table: now[table] - facts[table] for table in TABLES if now[table] != facts[table]}


def _rows(facts: Mapping[str, Any]) -> int:
    return sum(facts[table] for table in TABLES)
