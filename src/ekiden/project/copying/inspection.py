"""Inspects whole stores without changing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ekiden.audit import Verification, verify_audit
from ekiden.core.errors import StoreEmpty
from ekiden.core.errors.stored_data import NotCopyable, StoreUnfinished
from ekiden.core.values import loads
from ekiden.project.copying.places import snapshot_at, tenants_at
from ekiden.project.copying.report import CopyStep, Progress, StoreFindings
from ekiden.storage.copying import JSON_COLUMNS, TABLES, Row, StoreSnapshot, TableName


async def store_info(
    url: str, *, tenants: Collection[str] | None = None
) -> Sequence[dict[str, Any]]:
    """What each tenant's store is and holds; also of one that an unfinished copy left."""
    found = []
    for name in await tenants_at(url, tenants):
        async with snapshot_at(url, name) as source:
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
        await verified(name, snapshot_at(url, name), progress)
        for name in await tenants_at(url, tenants)
    ]


async def verified(name: str, source: StoreSnapshot, tell: Progress | None) -> StoreFindings:
    """The same for the store of one tenant."""
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
                faults.append(f"{unreadable} of the rows in {table} are not JSON")
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
