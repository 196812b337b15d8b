"""Finding out whether what is stored is what was written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TypeAlias

from ekiden.audit.against import ExportComparison
from ekiden.audit.coverage import Coverage
from ekiden.audit.decisions import check_decisions
from ekiden.audit.findings import BrokenLink, Verification
from ekiden.audit.walk import UNREADABLE, Walk, why_unreadable
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.chain import ChainHead

_PAGE = 100

Progress: TypeAlias = Callable[[Verification], object]
"""Called now and then with how far it is."""


async def verify_audit(
    store: Store,
    *,
    session_id: str | None = None,
    against: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compute every hash again, and report the first broken link of each session.

    It detects changed, moved, added and removed records, also at the end. It does not detect a
    deleted session, or a session whose events and hashes were all rewritten. For that, pass the
    lines of an earlier export as `against`: each of its records must still exist unchanged. Events
    without hashes, from an earlier version or from runs with ``events=False``, are counted but not
    verified. `checked` and `not_checked` report this in words.

    Raises `SessionNotFound` for an unknown `session_id`. Sessions may run at the same time. For
    example::

        verification = await verify_audit(store)
        if not verification.ok:
            print(verification.first.message)
    """
    checked, not_checked = _scope(session_id, is_compared=against is not None)
    found = Verification(checked=checked, not_checked=not_checked)
    heads: Mapping[str, ChainHead] = {}
    if against is not None:
        comparison = ExportComparison(store, found, session_id=session_id, progress=progress)
        heads = await comparison.run(against)
    if session_id is None:
        await _cover(found, Coverage(store, ""))
        await check_decisions(store, found)
    async for row in _rows(store, session_id, found):
        walk = Walk(store, row, heads.get(row.id))
        await walk.run()
        _add(found, walk)
        await _cover(found, Coverage(store, row.id, last=row.seq))
        if progress is not None:
            progress(found)
        await asyncio.sleep(0)  # A store in memory never waits, and others want their turn.
    return found


def _scope(session_id: str | None, *, is_compared: bool) -> tuple[list[str], list[str]]:
    """What is looked at, and what is not."""
    if session_id is None:
        checked = [
            "the hash chain of each session",
            "the digest of each commit",
            "the chain of events of no session",
            "closed inbox items",
        ]
        not_checked = []
    else:
        checked = [f"the hash chain and the digests of session {session_id}"]
        not_checked = ["other sessions, events of no session and inbox items"]
    if is_compared:
        checked.append("each record of the export")
    else:
        not_checked.append("whether whole sessions were deleted or rewritten (--against does)")
    not_checked.append(
        "variables and other facts of sessions, steps, documents, messages and memory, "
        "which no hash covers"
    )
    return checked, not_checked


async def _cover(found: Verification, coverage: Coverage) -> None:
    await coverage.run()
    found.covered += coverage.covered
    found.uncovered += coverage.uncovered
    if coverage.broken is not None:
        found.report(coverage.broken)


def _add(found: Verification, walk: Walk) -> None:
    found.sessions += 1
    found.events += walk.count
    found.unhashed += walk.unhashed
    if walk.is_chained:
        found.chained += 1
    elif walk.unhashed:
        found.not_chained += 1
    if walk.broken is not None:
        found.report(walk.broken)


async def _rows(
    store: Store, session_id: str | None, found: Verification
) -> AsyncIterator[SessionRow]:
    """The sessions to look at; a row that cannot be read is reported, and ends it."""
    if session_id is not None:
        yield await store.get(session_id)
        return
    cursor: str | None = None
    size = _PAGE
    last: SessionRow | None = None
    while True:
        try:
            page = await store.list(limit=size, cursor=cursor)
        except UNREADABLE as exc:
            if size > 1:
                size = 1
                continue
            found.report(_unreadable_row(last, exc))
            return
        for last in page.sessions:
            yield last
        cursor = page.next_cursor
        if cursor is None:
            return


def _unreadable_row(before: SessionRow | None, exc: Exception) -> BrokenLink:
    which = "the newest session" if before is None else f"the session created before {before.id}"
    return BrokenLink(
        record_id="",
        session_id="",
        fault="unreadable",
        message=f"the row of {which} cannot be read ({why_unreadable(exc)}), so that it "
        "and all older ones could not be looked at",
        at_us=0 if before is None else before.created_at_us,
    )
