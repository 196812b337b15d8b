"""Giving users' and apps' variables back the values that they had before a handoff."""

from __future__ import annotations

from typing import Any

from ekiden.core.errors import StaleDocument
from ekiden.runtime.committing import SHARED
from ekiden.runtime.cursor import PendingHandoff
from ekiden.runtime.shared import GONE, body_of, value_of, write_of
from ekiden.runtime.state import RunState


def touched_shared(pending: PendingHandoff) -> bool:
    """Whether variables of the user or the app were changed under the handoff."""
    return bool(pending.saved.get(SHARED))


async def restore_shared(run: RunState, pending: PendingHandoff) -> list[str]:
    """Undo what was done to them; gives the names of those that somebody else wrote since.

    They are others', too, so each is written by itself: what was undone already is not undone
    again, and the rollback, which was stored as begun, goes on after a crash.
    """
    undoing: dict[tuple[Any, str, str | None], list[Any] | None] = {}
    for key in pending.saved[SHARED]:
        stored = await run.store.steps(run.session_id, prefix=key)
        for scope, name, before, *where in stored[key]:
            undoing.setdefault((scope, name, _place(run, scope, where)), before)
    left = []
    for (scope, name, place), before in undoing.items():
        if place is None or not await _restored(run, place, name, before):
            left.append(f"{scope}:{name}")
    await run.learn_shared()
    return left


def _place(run: RunState, scope: Any, where: list[str]) -> str | None:
    """Where the variable is stored: the run may be for another app now than it was then."""
    if where:
        return where[0]
    shared = run.variables.shared.get(scope)
    return None if shared is None else shared.collection


async def _restored(run: RunState, collection: str, name: str, before: list[Any] | None) -> bool:
    value = GONE if before is None else before[0]
    while True:
        document = await run.store.get_document(collection, name)
        if document is None:
            return before is None
        body = document.body
        if body.get("session") != run.session_id:
            return bool(body.get("undone") == run.session_id or value_of(document) == value)
        undone = {**body_of(value), "undone": run.session_id}
        try:
            await run.store.write_documents(
                [write_of(collection, name, undone, version=document.version)]
            )
        except StaleDocument:
            continue
        return True
