"""The beginning of a copy: what may stop it is found before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ekiden.app.copying.parts import check_source
from ekiden.app.copying.places import source_at, target_at, tenants_at
from ekiden.app.tenants import DEFAULT_TENANT, JOINT, is_tenant
from ekiden.core.copy_errors import StoreNotEmpty
from ekiden.core.errors import StoreError, UserError
from ekiden.core.ids import new_id
from ekiden.storage.copying import BulkTarget, TargetState, check_mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A copy whose targets have their marks."""

    copy: str
    """Its id, which stays the same when it is resumed."""
    sources: Mapping[str, str]
    """Where each tenant's rows come from, for messages."""
    finished: Mapping[str, Mapping[str, str]]
    """What was read for the tenants that were finished when it was killed, see `reading_of`."""


async def begin(
    source: str, target: str, targets: Mapping[str, BulkTarget], *, resume: bool, final: bool
) -> Begun:
    """Mark all targets; none of them, if one cannot be used."""
    urls: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name in targets:
        async with source_at(source, name) as there:
            urls[name] = there.url
            check_source(there, await there.facts(), final=final)
            sources[await there.identity()] = there.url
    states = {name: await each.state(JOINT) for name, each in targets.items()}
    for state in states.values():
        if state.identity in sources:
            url = sources[state.identity]
            raise UserError(f"{url} is source and target at once: name another target")
    if DEFAULT_TENANT in states:
        known = await tenants_at(source, None)
        await _refuse_strangers(target, states[DEFAULT_TENANT].beside, known)
    begun = _planned(targets, states, urls, resume=resume)
    await _mark(targets, begun, resume=resume)
    return begun


async def _refuse_strangers(target: str, beside: Collection[str], known: Collection[str]) -> None:
    """`StoreNotEmpty` for a tenant's store that only the target has: keys that are copied would
    open it."""
    for name in beside:
        if is_tenant(name) and name not in known:
            stranger = target_at(target, name)
            state = await stranger.state(JOINT)
            if state.holds or state.mark is not None:
                found = state.holds or "an unfinished copy"
                raise StoreNotEmpty(stranger.url, f"{found}, and the source has no tenant {name}")


def _planned(
    targets: Mapping[str, BulkTarget],
    states: Mapping[str, TargetState],
    urls: Mapping[str, str],
    *,
    resume: bool,
) -> Begun:
    """Which copy it is, and what of it is finished; `StoreUnfinished`, `StoreNotEmpty`."""
    marks = [state.mark for state in states.values() if state.mark is not None]
    copy = next((str(mark["copy"]) for mark in marks if "copy" in mark), "")
    finished: dict[str, Mapping[str, str]] = {}
    for name, state in states.items():
        if state.mark is not None:
            check_mark(targets[name].url, state.mark, source=urls[name], resume=resume)
        elif resume and _is_part(state.note, copy, urls[name]):
            assert state.note is not None
            finished[name] = state.note["read"]
        elif state.holds:
            raise StoreNotEmpty(targets[name].url, state.holds)
    return Begun(copy=copy or new_id("cpy"), sources=urls, finished=finished)


def _is_part(note: Mapping[str, Any] | None, copy: str, source: str) -> bool:
    """Whether the copy that is resumed finished this one."""
    return note is not None and (note["copy"], note["source"]) == (copy, source)


async def _mark(targets: Mapping[str, BulkTarget], begun: Begun, *, resume: bool) -> None:
    """Begin all that are not finished, the main one first."""
    new: list[BulkTarget] = []
    try:
        for name, target in targets.items():
            if name not in begun.finished:
                async with target as opened:
                    source = begun.sources[name]
                    if not await opened.begin(source, copy=begun.copy, resume=resume):
                        new.append(target)
    except BaseException:
        for target in new:
            with suppress(StoreError):
                async with target as opened:
                    await opened.withdraw()
        raise
