"""Copying whole stores, of all tenants."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from ekiden.app.copying.beginning import Begun, begin
from ekiden.app.copying.parts import Part, check_unchanged, fill
from ekiden.app.copying.places import source_at, target_at, tenants_at
from ekiden.app.copying.report import CopyReport, Progress
from ekiden.core.errors import StoreError
from ekiden.core.faults import fault_point
from ekiden.storage.copying import BulkTarget


async def copy_store(
    source: str,
    target: str,
    *,
    tenants: Collection[str] | None = None,
    resume: bool = False,
    final: bool = False,
    alone: bool = False,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy everything from one store to another that is empty, and compare the two.

    Each tenant's store is copied as it was at one moment, whatever is written meanwhile, and the
    source is not changed. All targets are marked as unfinished at the beginning; nobody can use
    them until all was written, compared row by row and its audit verified. A copy that was killed
    is begun anew with `resume`, from the same source: what it left is removed first, so that two
    moments are never mixed. With `final` nothing may be left behind in the source: when all is
    written, every source is read again and must be as it was. With `alone` a SQLite target is left
    as one single file.

    `StoreNotEmpty`, `StoreUnfinished`, `CopyDiffers`, `SourceInUse`, `NotCopyable`,
    `StoreUnavailable`, `UserError`. For example::

        report = await copy_store("desk.db", "postgresql://localhost/desk")
        print(report.rows, report.audit_ok)
    """
    began = time.monotonic()
    names = await tenants_at(source, tenants)
    targets = {name: target_at(target, name) for name in names}
    begun = await begin(source, target, targets, resume=resume, final=final)
    fault_point("copy.begun")
    parts = {
        name: Part(name, source_at(source, name), targets[name], final=final, tell=progress)
        for name in names
    }
    read, copied = dict(begun.finished), []
    for name, part in parts.items():
        if name not in begun.finished:
            filled = await fill(part)
            copied.append(filled.tenant)
            read[name] = filled.read
    if final:
        for name, part in parts.items():
            await check_unchanged(part, read[name])
    fault_point("copy.verified")
    await _finish(targets, begun, read, alone=alone)
    return CopyReport(
        source=source_at(source).url,
        target=target_at(target).url,
        tenants=copied,
        finished_before=sorted(begun.finished),
        seconds=time.monotonic() - began,
    )


async def _finish(
    targets: Mapping[str, BulkTarget],
    begun: Begun,
    read: Mapping[str, Mapping[str, str]],
    *,
    alone: bool,
) -> None:
    """Take the marks away, that of the main store last: whoever finds it finished finds all
    finished. Until then the others have a note by which a resumed copy knows them."""
    *others, last = [name for name in reversed(list(targets)) if name not in begun.finished]
    for name in others:
        note = {"v": 1, "copy": begun.copy, "source": begun.sources[name], "read": read[name]}
        async with targets[name] as opened:
            await opened.finish(alone=alone, note=note)
        _finished_one()
    async with targets[last] as opened:
        await opened.finish(alone=alone)
    _finished_one()
    for name in [*others, *begun.finished]:
        # All is done, and what is left of a note tells nobody anything any more.
        with suppress(StoreError):
            async with targets[name] as opened:
                await opened.forget(alone=alone)


def _finished_one() -> None:
    fault_point("copy.finished")
