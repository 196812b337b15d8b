"""Adding to a conversation that nobody runs, and taking back what was said last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.ids import new_id
from ekiden.core.items import Item
from ekiden.sessions.conversation import said
from ekiden.sessions.progress import has_open_run
from ekiden.storage.base import Commit, NewSession, SessionPatch, SessionRow, Store

_LEASE_S = 30.0


async def append_items(store: Store, draft: NewSession, items: tuple[Item, ...]) -> None:
    """Say `items` in the session, which is made if there is none; `SessionBusy`, `UserError`."""

    async def added(row: SessionRow) -> Event:
        return await _event(store, row, "added", items, None)

    await _write(store, draft, added)


async def take_last_item(store: Store, draft: NewSession) -> Item | None:
    """Take the last item out of the conversation and give it; `SessionBusy`, `UserError`."""
    await store.open()
    taken: list[Item] = []

    async def popped(row: SessionRow) -> Event | None:
        last = _last(await store.events(row.id, with_items=True))
        if last is None:
            return None
        taken.append(last.items[-1])
        details = {"undoes": [last.seq, last.seq]}
        return await _event(store, row, "popped", last.items[:-1], details, agent=last.agent)

    await _write(store, draft, popped)
    return taken[0] if taken else None


def _last(events: Sequence[Event]) -> Event | None:
    standing = list(said(events))
    return standing[-1] if standing else None


async def _write(store: Store, draft: NewSession, event_of: Callable[[SessionRow], Any]) -> None:
    await store.open()
    claim, row = await store.claim(draft.id, owner=new_id("say"), lease_s=_LEASE_S, create=draft)
    try:
        if has_open_run(row):
            raise UserError(
                f"a run of session {row.id!r} is unfinished: resume it, or send it a message, "
                "before its conversation is changed"
            )
        event = await event_of(row)
        if event is not None:
            await store.commit(claim, Commit(patch=SessionPatch(), events=[event], release=True))
            return
    except BaseException:
        await store.release(claim)
        raise
    await store.release(claim)


async def _event(
    store: Store,
    row: SessionRow,
    kind: str,
    items: tuple[Item, ...],
    details: dict[str, Any] | None,
    agent: str | None = None,
) -> Event:
    """An event of no run: its key begins with 0."""
    seq = row.seq + 1
    return Event(
        session_id=row.id,
        seq=seq,
        type="message",
        at_us=await store.now_us(),
        agent=agent or row.agent or None,
        step=f"0.{seq}.{kind}",
        details=details,
        items=items,
    )
