"""Changes of items as one transaction: item, timer, wake-ups and event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from ekiden.core.errors import StaleDocument
from ekiden.core.errors.messages import InboxError, InboxItemNotFound
from ekiden.core.questions import InboxItem
from ekiden.inbox.items import TIMER, Change, change_writes, due_changes, read_item
from ekiden.inbox.notifications import change_event, closed_error, settle_of
from ekiden.storage.base import Batch, Store
from ekiden.storage.timers import Timer, due_timers, next_due_us, remove_timer

Decide: TypeAlias = Callable[[InboxItem, int], Change]
"""What is to become of an open item at a time; raises if that is not possible."""

T = TypeVar("T")

_TRIES = 100
_PAGE = 100


async def read_current(store: Store, item_id: str, *, now_us: int | None = None) -> InboxItem:
    """The item as it is now, with what time did to it written down; `InboxItemNotFound`."""
    at_us = await store.now_us() if now_us is None else now_us
    for _ in range(_TRIES):
        item = await read_item(store, item_id)
        if item is None:
            raise InboxItemNotFound(item_id)
        due = due_changes(item, at_us)
        if not due:
            return item
        await write_changes(store, item, due, now_us=at_us)
    raise _restless(item_id)


async def change_item(store: Store, item_id: str, decide: Decide) -> InboxItem:
    """Change an open item, once; as it is stored then.

    Of several who change it at the same time one is first, and the others decide again about what
    it made of the item. `InboxItemClosed` if it is not open any more; what `decide` raises changes
    nothing.
    """
    for _ in range(_TRIES):
        now_us = await store.now_us()
        item = await read_current(store, item_id, now_us=now_us)
        if item.status != "open":
            raise closed_error(item)
        change = decide(item, now_us)
        if await write_changes(store, item, [change], now_us=now_us):
            version = item.version + 1 if change.item.status == "open" else 1
            return replace(change.item, version=version)
    raise _restless(item_id)


async def write_changes(
    store: Store, before: InboxItem, changes: Sequence[Change], *, now_us: int
) -> bool:
    """Store the changes of an item, one after the other; `False` if another process was first."""
    after = changes[-1].item
    settle = settle_of(after)
    waiting = after.session_id if after.status != "open" else None
    batch = Batch(
        documents=change_writes(before, after),
        settles=() if settle is None else (settle,),
        wakes=() if waiting is None else (waiting,),
        events=[change_event(change, now_us=now_us) for change in changes],
    )
    try:
        await store.write(batch)
    except StaleDocument:
        return False
    return True


async def run_due(store: Store, *, now_us: int) -> int:
    """Process due deadlines, escalations and snoozes; returns the number of changed items.

    Any number of processes may call it at the same time: each item changes once. `now_us` is the
    store's time.
    """
    first = await next_due_us(store)
    if first is None or first > now_us:
        return 0
    changed = 0
    after = ""
    while timers := await due_timers(store, now_us=now_us, kind=TIMER, after=after, limit=_PAGE):
        changed += sum(await all_of(_run_timer(store, timer, now_us) for timer in timers))
        after = timers[-1].key
    return changed


async def _run_timer(store: Store, timer: Timer, now_us: int) -> bool:
    item = await read_item(store, timer.id)
    due = [] if item is None else due_changes(item, now_us)
    if item is None or not due:
        # What it was set for is done: it was left over, and would be found again and again.
        await remove_timer(store, timer)
        return False
    return await write_changes(store, item, due, now_us=now_us)


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What they give, done at the same time so that a store can write them together.

    The first failure is raised when all have ended.
    """
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def _restless(item_id: str) -> InboxError:
    return InboxError(
        f"inbox item {item_id} is changed by others all the time; nothing was changed, try again"
    )
