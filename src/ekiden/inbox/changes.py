"""Changes of inbox items, and the waits of one process for these changes. Each change is stored
once, together with its event. A signal of the store does not say which item changed. So one task
reads the store for all waiters of this process. After each round of reading, the task pauses for a
multiple of the round's duration. The task ends when no waiter is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from ekiden.core.conversation.messages import answer_json, error_json
from ekiden.core.documents import to_json
from ekiden.core.errors import StaleDocument, StoreError
from ekiden.core.errors.messages import InboxError, InboxItemClosed, InboxItemNotFound
from ekiden.core.events import Event
from ekiden.core.privacy.masking import masked_keys
from ekiden.core.questions import NOBODY, WAITS, InboxItem
from ekiden.core.values import new_id
from ekiden.inbox.items import (
    TIMER,
    InboxChange,
    change_writes,
    due_changes,
    next_due_us as item_due_us,
    read_item,
)
from ekiden.storage.base import Batch, DocumentWrite, MessageSettle, Store
from ekiden.storage.chain import ITEM_DIGEST, json_digest
from ekiden.storage.timers import Timer, due_timers, next_due_us, remove_timer

NEW_ITEM = "inbox.new_item"
"""The name of the notification with which observers learn of a new item."""
_MAX_TEXT = 2_000


def new_item_notice(item: InboxItem) -> dict[str, Any]:
    """The content of the notification `inbox.new_item`."""
    return {
        "id": item.id,
        "from": item.from_agent,
        "subject": item.subject,
        "payload": {
            "kind": item.kind,
            "body": item.body,
            "options": list(item.options),
            "context": item.context,
            "role": item.role,
            "assignee": item.assignee,
            "deadline_us": item.deadline_us,
            "tool": item.tool,
            "arguments": item.arguments,
            "session_id": item.session_id,
        },
        "priority": item.priority,
        "created_at": item.created_at_us / 1e6,
    }


def change_details(change: InboxChange) -> dict[str, Any]:
    """The details of the event of a change, with API keys masked. `by` is the author of the change,
    or `nobody` for a change that time caused."""
    item, answer = change.item, change.item.answer
    details: dict[str, Any] = {
        "change": change.name,
        "item": item.id,
        "kind": item.kind,
        "from": item.from_agent,
        "role": item.role,
        "subject": masked_keys(item.subject),
        "priority": item.priority,
        "by": change.by or {"kind": "agent", "name": item.from_agent},
        "via": change.via,
        "at_us": change.at_us,
    }
    if item.status != "open":
        details[ITEM_DIGEST] = json_digest(item.to_json())
    if answer is not None:
        details |= {"choice": answer.choice, "text": masked_keys(answer.text)[:_MAX_TEXT]}
        details |= {"always": answer.always, "edited": change.edited}
        if answer.always:
            details["scope"] = answer.scope
        if answer.arguments is not None:
            details["arguments"] = masked_keys(answer.arguments)[:_MAX_TEXT]
    optional = {
        "task": item.task_id or item.session_id,
        "correlation": item.correlation_id or item.session_id,
        "tool": item.tool,
        "assignee": item.assignee,
        "snoozed_until_us": item.snoozed_until_us,
        "deadline_us": item.deadline_us,
        "reason": masked_keys(item.reason) or None,
    }
    return details | {name: value for name, value in optional.items() if value is not None}


def change_event(change: InboxChange, *, now_us: int) -> Event:
    """The event of a change that is not part of a session's own commit."""
    return Event(
        session_id="",
        seq=0,
        type="inbox",
        at_us=now_us,
        agent=change.item.from_agent,
        details=change_details(change),
    )


def settle_of(item: InboxItem) -> MessageSettle | None:
    """The settlement of the message that waits for a closed item; `None` if no message waits."""
    if item.message_id is None or item.status == "open":
        return None
    if item.answer is not None:
        answer = answer_json(to_json(item.answer))
        return MessageSettle(key=item.message_id, state="answered", answer=answer)
    error = error_json(str(closed_error(item)), code=InboxItemClosed.code)
    return MessageSettle(key=item.message_id, state="failed", answer=error)


def closed_error(item: InboxItem) -> InboxItemClosed:
    """The error that names the person who closed the item first, and the time."""
    by = "" if item.closed_by == NOBODY and item.status == "expired" else item.closed_by
    return InboxItemClosed(item.id, status=item.status, by=by, at=time_text(item.closed_at_us))


def time_text(at_us: int | None) -> str:
    """A time as text for messages."""
    if at_us is None:
        return ""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds")


Decide: TypeAlias = Callable[[InboxItem, int], InboxChange]
"""A function that gets an open item and the time, and returns the change to make. It raises an
exception to refuse the change."""

T = TypeVar("T")

_TRIES = 100
_PAGE = 100


async def read_current(store: Store, item_id: str, *, now_us: int | None = None) -> InboxItem:
    """Return the current item. First store the changes that time has caused, such as an expiry.
    Raises `InboxItemNotFound`."""
    at_us = await store.now_us() if now_us is None else now_us
    for _ in range(_TRIES):
        item = await read_item(store, item_id)
        if item is None:
            raise InboxItemNotFound(item_id)
        due = due_changes(item, at_us)
        if not due:
            return item
        await write_changes(store, item, due, now_us=at_us)
    raise _too_many_changes(item_id)


async def change_item(store: Store, item_id: str, decide: Decide) -> InboxItem:
    """Change an open item, and return the stored item.

    If several callers change the item at the same time, one change is stored first. For the other
    callers, `decide` is called again with the changed item. Raises `InboxItemClosed` if the item is
    closed. If `decide` raises an exception, nothing changes.
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
    raise _too_many_changes(item_id)


async def write_changes(
    store: Store, before: InboxItem, changes: Sequence[InboxChange], *, now_us: int
) -> bool:
    """Store consecutive changes of an item. Returns false if another process changed the item
    first."""
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
    """Process due deadlines, escalations and snoozes, and return the number of changed items.

    Several processes may call this function at the same time: each item changes once. `now_us` is
    the time on the store's clock.
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
        # The timer is outdated; without this it would be found again and again.
        await remove_timer(store, timer)
        return False
    return await write_changes(store, item, due, now_us=now_us)


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the calls concurrently, so that the store can write them together, and return the
    results.

    The first failure is raised when all calls have ended.
    """
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def _too_many_changes(item_id: str) -> InboxError:
    return InboxError(
        f"inbox item {item_id} is changed by others all the time; nothing was changed, try again"
    )


_READ_EVERY_S = 5.0
"""The interval of reads without a signal, which may be lost."""
_PRESENT_S = 15.0
"""The time after which a process that does not renew its waits counts as dead."""
_RENEW_EVERY_S = 5.0
_SHORTEST_PAUSE_S = 0.005
_AFTER_FAILURE_S = 0.1
_PAUSE_FACTOR = 9
"""A round is followed by a pause of this many times its duration."""


class ItemWaits:
    """The waiters of this process, by item, and the task that reads the items."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waits: dict[str, list[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._renewed_us = 0
        self._name = new_id("wait")

    async def until_closed(self, item_id: str, *, is_stored: bool = False) -> None:
        """Return when the item is closed. Raises the errors of reading the item.

        `is_stored` means that the wait was stored together with the item.
        """
        async with self._waiting(item_id) as closed:
            # The item may have been closed before this wait began.
            item = await read_current(self._store, item_id)
            if item.status != "open":
                return
            try:
                if not is_stored:
                    await self._renew([item_id], await self._store.now_us())
                await closed
            finally:
                # The document stands for all waiters of this process, so the last one removes it.
                if len(self._waits[item_id]) == 1:
                    with suppress(StoreError):
                        await self.leave(item_id)

    async def _renew(self, item_ids: Sequence[str], now_us: int) -> None:
        """Store that this process is alive and waits for these items."""
        self._renewed_us = now_us
        await self._store.write_documents([self.presence(item_id, now_us) for item_id in item_ids])

    def presence(self, item_id: str, now_us: int) -> DocumentWrite:
        """The write that stores that this process is alive and waits for the item."""
        until = {"until_us": now_us + int(_PRESENT_S * 1e6)}
        return DocumentWrite(collection=WAITS, key=f"{item_id}/{self._name}", body=until)

    async def leave(self, item_id: str) -> bool:
        """Store that this process no longer waits for the item, and return whether another process
        waits for it.

        This process removes its document before it reads the documents of other processes. So if
        several processes leave at the same time, at least one of them finds no other process.
        """
        gone = DocumentWrite(collection=WAITS, key=f"{item_id}/{self._name}", body=None)
        await self._store.write_documents([gone])
        now_us = await self._store.now_us()
        others = await self._store.list_documents(WAITS, prefix=f"{item_id}/")
        left = [each.key for each in others if each.body["until_us"] <= now_us]
        if left:
            await self._store.write_documents(
                [DocumentWrite(collection=WAITS, key=key, body=None) for key in left]
            )
        return len(left) < len(others)

    async def give_up(self, item_id: str) -> bool:
        """End one wait in this process, and return whether the item has no waiter any more."""
        return not self._waits.get(item_id) and not await self.leave(item_id)

    def hint(self, item_id: str) -> None:
        """Wake the waiters of an item that was closed."""
        for closed in self._waits.get(item_id, ()):
            if not closed.done():
                closed.set_result(None)

    @asynccontextmanager
    async def _waiting(self, item_id: str) -> AsyncIterator[asyncio.Future[None]]:
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.setdefault(item_id, []).append(closed)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="ekiden-inbox-waiting")
        try:
            yield closed
        finally:
            self._waits[item_id].remove(closed)
            if not self._waits[item_id]:
                del self._waits[item_id]
            if not self._waits and self._task is not None:
                task, self._task = self._task, None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            begun = monotonic()
            # Started before the read, so that a change during it is not missed.
            hint = asyncio.create_task(self._store.wait_for_change(_READ_EVERY_S))
            try:
                next_s = await self._round()
                took_s = monotonic() - begun
                await asyncio.wait({hint}, timeout=next_s)
            except Exception as exc:
                self._fail(exc)
                took_s = _AFTER_FAILURE_S
            finally:
                hint.cancel()
                await asyncio.gather(hint, return_exceptions=True)
            await asyncio.sleep(max(took_s * _PAUSE_FACTOR, _SHORTEST_PAUSE_S))

    async def _round(self) -> float:
        """Read each item; returns the seconds until the next change by time."""
        now_us = await self._store.now_us()
        nearest_s = _READ_EVERY_S
        # The absolute value, because the store's clock may have been set back.
        if abs(now_us - self._renewed_us) >= _RENEW_EVERY_S * 1e6:
            await self._renew(list(self._waits), now_us)
        for item_id in list(self._waits):
            try:
                item = await read_current(self._store, item_id, now_us=now_us)
            except InboxItemNotFound as exc:
                self._fail(exc, item_id)
                continue
            if item.status != "open":
                self.hint(item_id)
            due = item_due_us(item)
            if due is not None:
                nearest_s = min(nearest_s, max(due - now_us, 0) / 1e6)
        return nearest_s

    def _fail(self, exc: Exception, item_id: str | None = None) -> None:
        for each in list(self._waits) if item_id is None else [item_id]:
            for closed in self._waits.get(each, ()):
                if not closed.done():
                    closed.set_exception(exc)
