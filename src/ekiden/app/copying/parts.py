"""Copying the store of one tenant, and comparing the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ekiden.app.copying.followers import followed
from ekiden.app.copying.report import CopiedTenant, CopyStep, Progress
from ekiden.audit import Verification, verify_audit
from ekiden.core.copy_errors import CopyDiffers, NotCopyable, SourceInUse, StoreUnfinished
from ekiden.core.faults import fault_point
from ekiden.core.jsonio import dumps
from ekiden.storage.copying import (
    TABLES,
    WRITING,
    BulkSource,
    BulkTarget,
    Numbers,
    TableName,
    Tally,
)


@dataclass(slots=True)
class Part:
    """What is copied from where to where."""

    name: str
    source: BulkSource
    target: BulkTarget
    final: bool = field(kw_only=True)
    tell: Progress | None = field(kw_only=True)

    def at(self, phase: Literal["copy", "compare", "audit"], done: int, total: int) -> None:
        """Say how far it is."""
        if self.tell is not None:
            self.tell(CopyStep(tenant=self.name, phase=phase, done=done, total=total))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What became of a part."""

    tenant: CopiedTenant
    read: Mapping[str, str]
    """What `reading_of` tells of its source."""


def reading_of(tallies: Mapping[TableName, Tally], numbers: Numbers) -> dict[str, str]:
    """What was read in a source: two readings that are equal are of the same rows."""
    told: dict[str, str] = {"numbers": dumps(asdict(numbers))}
    for table, tally in tallies.items():
        told[table] = f"{tally.count} {tally.digest}"
    return told


async def fill(part: Part) -> Filled:
    """Write everything to a target that has its mark, and leave the mark; errors as `copy_store`
    says."""
    async with part.source as source, part.target:
        facts = await source.facts()
        check_source(source, facts, final=part.final)
        numbers = await source.numbers()
        written, read = await _write(part, facts, numbers)
        fault_point("copy.written")
        audit = await _compare(part, written)
    later = await _later(part, facts)
    tenant = CopiedTenant(
        name=part.name,
        counts={table: written[table].count for table in TABLES},
        digests={table: written[table].digest for table in TABLES},
        audit=audit,
        leases=facts["leases"],
        later=later,
    )
    return Filled(tenant=tenant, read=reading_of(read, numbers))


async def check_unchanged(part: Part, read: Mapping[str, str]) -> None:
    """`SourceInUse` if the source is not as it was `read`, in any row, or somebody has something
    there."""
    tallies: dict[TableName, Tally] = {}
    async with part.source as source:
        facts = await source.facts()
        check_source(source, facts, final=True)
        total, done = _rows(facts), 0
        for table in TABLES:
            tally = tallies[table] = Tally(table)
            async for rows in source.pages(table):
                tally.add(rows, ordered=table == "events")
                done += len(rows)
                part.at("compare", done, total)
        now = reading_of(tallies, await source.numbers())
    for name, told in now.items():
        if read[name] != told:
            raise SourceInUse(source.url, f"something was written to its {name} during the copy")


def check_source(source: BulkSource, facts: Mapping[str, Any], *, final: bool) -> None:
    """`NotCopyable` for what is not whole, `StoreUnfinished` for half of a copy, and `SourceInUse`
    if a `final` copy would leave something behind."""
    url = source.url
    if not facts["format"]:
        raise NotCopyable(url, "it has no tables")
    if source.missing:
        raise NotCopyable(url, f"{', '.join(source.missing[:5])} is missing")
    if facts["unfinished"] is not None:
        raise StoreUnfinished(url, source=facts["unfinished"])
    if final and facts["leases"]:
        count = facts["leases"]
        problem = "somebody works at a session" if count == 1 else f"{count} sessions are worked at"
        raise SourceInUse(url, problem)
    if final and facts["taken"]:
        raise SourceInUse(url, f"somebody has taken messages of it ({facts['taken']})")


async def _write(
    part: Part, facts: Mapping[str, Any], numbers: Numbers
) -> tuple[Mapping[TableName, Tally], Mapping[TableName, Tally]]:
    """The rows as they were written, and as they were read."""
    source, target = part.source, part.target
    places = await target.map_feed(source.kind, numbers, facts["events"])
    total = _rows(facts)
    done = 0
    tallies: dict[TableName, Tally] = {}
    documents = Tally("documents")
    for table in WRITING:
        tally = tallies[table] = Tally(table)
        async for page in source.pages(table):
            rows = page
            if table == "documents":
                documents.add(page, ordered=False)
                rows = await followed(page, source, target, places)
            await target.write(table, rows)
            fault_point("copy.page")
            tally.add(rows, ordered=table == "events")
            done += len(rows)
            part.at("copy", done, total)
    await target.number(numbers)
    return tallies, {**tallies, "documents": documents}


async def _compare(part: Part, written: Mapping[TableName, Tally]) -> Verification:
    """Read the target again: it must have the same rows, and so the same audit."""
    total = sum(tally.count for tally in written.values())
    done = 0
    async with part.target.reading() as copy:
        for table, expected in written.items():
            tally = Tally(table)
            async for rows in copy.pages(table):
                tally.add(rows, ordered=table == "events")
                done += len(rows)
                part.at("compare", done, total)
            if (tally.count, tally.digest) != (expected.count, expected.digest):
                raise CopyDiffers(part.target.url, _difference(table, expected, tally))
        sessions = written["sessions"].count
        return await verify_audit(
            copy.view(), progress=lambda found: part.at("audit", found.sessions, sessions)
        )


async def _later(part: Part, facts: Mapping[str, Any]) -> Mapping[str, int]:
    """What changed in the source since, by counts."""
    async with part.source as source:
        now = await source.facts()
    return {table: now[table] - facts[table] for table in TABLES if now[table] != facts[table]}


def _difference(table: str, expected: Tally, found: Tally) -> str:
    if expected.count != found.count:
        return f"{table} has {found.count} rows, and {expected.count} were written"
    return f"rows of {table} are not as they were written"


def _rows(facts: Mapping[str, Any]) -> int:
    return sum(facts[table] for table in TABLES)
