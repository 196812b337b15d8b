"""Looking at whole stores without changing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.app.copying.places import source_at, tenants_at
from ekiden.app.copying.report import CopyStep, Progress
from ekiden.audit import Verification, verify_audit
from ekiden.core.copy_errors import NotCopyable, StoreUnfinished
from ekiden.core.errors import StoreEmpty
from ekiden.core.jsonio import loads
from ekiden.storage.copying import JSON_COLUMNS, TABLES, BulkSource, Row, TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFindings:
    """What was found in the store of one tenant."""

    tenant: str
    url: str
    faults: Sequence[str]
    """Damage, rows that belong to nothing, and rows that cannot be read."""
    audit: Verification
    """Of every session: events without gaps in their numbers, hashes, the chain's head."""
    checked: Sequence[str] = ()
    """What was looked at, besides the audit."""
    not_checked: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.audit.ok and not self.faults

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            "tenant": self.tenant,
            "url": self.url,
            "ok": self.ok,
            "faults": list(self.faults),
            "checked": list(self.checked),
            "not_checked": list(self.not_checked),
            "audit": self.audit.to_json(),
        }


async def store_info(
    url: str, *, tenants: Collection[str] | None = None
) -> Sequence[dict[str, Any]]:
    """What each tenant's store is and holds; also of one that an unfinished copy left."""
    found = []
    for name in await tenants_at(url, tenants):
        async with source_at(url, name) as source:
            facts = await source.facts(exact=False)
            _refuse_empty(source.url, facts)
            found.append({"tenant": name, "url": source.url, **facts})
    return found


async def verify_store(
    url: str, *, tenants: Collection[str] | None = None, progress: Progress | None = None
) -> Sequence[StoreFindings]:
    """Read everything there is, as it is at one moment, and tell what is wrong with it.

    Nothing is changed, so a store of an older format is `UserError`; `StoreUnfinished`,
    `StoreEmpty`.
    """
    return [
        await _verified(name, source_at(url, name), progress)
        for name in await tenants_at(url, tenants)
    ]


async def _verified(name: str, source: BulkSource, tell: Progress | None) -> StoreFindings:
    async with source:
        facts = await source.facts()
        _refuse_empty(source.url, facts)
        if facts["unfinished"] is not None:
            raise StoreUnfinished(source.url, source=facts["unfinished"])
        view = source.view()
        examined = await source.examine()
        faults = list(examined.faults)
        if source.missing:
            # What is left of it tells nothing: neither rows nor chains can be complete.
            return StoreFindings(
                tenant=name,
                url=source.url,
                faults=faults,
                audit=Verification(),
                checked=examined.checked,
                not_checked=[*examined.not_checked, "rows and audit, since tables are missing"],
            )
        total, done = sum(facts[table] for table in TABLES), 0
        for table in TABLES:
            unreadable = 0
            try:
                async for rows in source.pages(table):
                    unreadable += _unreadable(table, rows)
                    done += len(rows)
                    if tell is not None:
                        tell(CopyStep(tenant=name, phase="compare", done=done, total=total))
            except NotCopyable as exc:
                faults.append(str(exc))
            if unreadable:
                faults.append(f"{unreadable} of the rows in {table} have what is not JSON")
        sessions = facts["sessions"]

        def audited(found: Verification) -> None:
            if tell is not None:
                done = found.sessions
                tell(CopyStep(tenant=name, phase="audit", done=done, total=sessions))

        audit = await verify_audit(view, progress=audited)
    return StoreFindings(
        tenant=name,
        url=source.url,
        faults=faults,
        audit=audit,
        checked=[*examined.checked, "that rows can be read, and have JSON"],
        not_checked=examined.not_checked,
    )


def _refuse_empty(url: str, facts: Mapping[str, Any]) -> None:
    """`StoreEmpty` for a place without any of a store's tables."""
    if not facts["format"]:
        raise StoreEmpty(url, "it has no tables")


def _unreadable(table: TableName, rows: Sequence[Row]) -> int:
    places = [at for at, column in enumerate(TABLES[table]) if column in JSON_COLUMNS]
    return sum(not _is_json(row, places) for row in rows)


def _is_json(row: Row, places: Sequence[int]) -> bool:
    try:
        for at in places:
            if row[at] is not None:
                loads(row[at])
    except (ValueError, TypeError, RecursionError):
        return False
    return True
