"""Sessions that are parked: which questions to people they wait for, and waiting with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ekiden.core.errors import SessionError, StoreUnavailable
from ekiden.core.inbox_item import InboxItem
from ekiden.runtime.cursor import Cursor
from ekiden.runtime.driving import is_ready
from ekiden.runtime.inboxes import read_item
from ekiden.runtime.timekeeping import run_timers
from ekiden.storage.base import Store

_LOOK_EVERY_S = 1.0
"""After so long the store is looked into, whether it told of a change or not."""


async def questions_to_people(store: Store, session_id: str) -> list[InboxItem]:
    """The open inbox items that the session waits for, also through agents that it asked.

    Empty if it waits for agents only, or not at all.
    """
    found: dict[str, InboxItem] = {}
    seen: set[str] = set()
    todo = [session_id]
    while todo:
        session = todo.pop(0)
        if session in seen:
            continue
        seen.add(session)
        try:
            row = await store.get(session)
        except SessionError:
            continue
        for question in Cursor.from_json(row.cursor).asks.values():
            if question.session is not None:
                todo.append(question.session)
            item = await read_item(store, question.id) if question.kind == "inbox" else None
            if item is not None and item.status == "open":
                found[item.id] = item
    return list(found.values())


async def until_it_moves(
    store: Store,
    session_id: str,
    *,
    timeout_s: float | None = None,
    on_outage: Callable[[StoreUnavailable | None], None] | None = None,
) -> bool:
    """Wait until the session can go on: `True`; `False` if somebody else has ended its run.

    Meanwhile what is due is seen to: deadlines, escalations, time-outs. A store that cannot be
    reached is waited for, too; `on_outage` is told when that begins, and with `None` when it is
    over. `TimeoutError`, `SessionNotFound`.
    """
    is_out = False
    async with asyncio.timeout(timeout_s):
        while True:
            # Begun before looking, so that what changes meanwhile is not missed.
            hint = asyncio.create_task(store.wait_for_change(_LOOK_EVERY_S))
            try:
                moved = await _has_moved(store, session_id)
                if is_out and on_outage is not None:
                    on_outage(None)
                is_out = False
                if moved is not None:
                    return moved
                await asyncio.wait({hint})
            except StoreUnavailable as exc:
                if not is_out and on_outage is not None:
                    on_outage(exc)
                is_out = True
                await asyncio.sleep(_LOOK_EVERY_S)
            finally:
                hint.cancel()
                await asyncio.gather(hint, return_exceptions=True)


async def _has_moved(store: Store, session_id: str) -> bool | None:
    """`None` while the session waits, or somebody else runs it."""
    while True:
        row = await store.get(session_id)
        if row.owner is not None:
            return None
        if row.status == "idle":
            return False
        if await is_ready(store, session_id):
            return True
        if not await run_timers(store):
            return None
