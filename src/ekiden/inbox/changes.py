"""Changes of inbox items: each is stored once, with its event and the wake of its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from ekiden.core.conversation.messages import answer_json, error_json
from ekiden.core.documents import to_json
from ekiden.core.errors import StaleDocument
from ekiden.core.errors.messages import InboxError, InboxItemClosed, InboxItemNotFound
from ekiden.core.events import Event
from ekiden.core.privacy.masking import masked_keys
from ekiden.core.questions import NOBODY, InboxItem
from ekiden.inbox.items import TIMER, InboxChange, change_writes, due_changes, read_item
from ekiden.storage.base import Batch, MessageSettle, Store
from ekiden.storage.chain import ITEM_DIGEST, json_digest
from ekiden.storage.timers import Timer, due_timers, next_due_us, remove_timer

NEW_ITEM = "inbox.new_item"
"""The name of the event of a new item for observers."""
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
    """The details of the event of a change, with keys masked; `by` is its author, and `nobody` is
    the clock."""
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
    """The event of a change that belongs to no session's own commit."""
    return Event(
        session_id="",
        seq=0,
        type="inbox",
        at_us=now_us,
        agent=change.item.from_agent,
        details=change_details(change),
    )


def settle_of(item: InboxItem) -> MessageSettle | None:
    """The settlement of the message that waits for a closed item; `None` without a message."""
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
"""A function that returns the change of an open item at a time, or raises."""

T = TypeVar("T")

_TRIES = 100
_PAGE = 100


async def read_current(store: Store, item_id: str, *, now_us: int | None = None) -> InboxItem:
    """The current item; changes by time, such as deadlines, are stored first. Raises
    `InboxItemNotFound`."""
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

    If several callers change it at the same time, one is first, and `decide` of the others is
    called again with the changed item. Raises `InboxItemClosed` if the item is closed. If `decide`
    raises, nothing changes.
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
    """Store consecutive changes of an item; false if another process changed it first."""
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
        # The timer is outdated; without this it would be found again and again.
        await remove_timer(store, timer)
        return False
    return await write_changes(store, item, due, now_us=now_us)


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of concurrent calls, which a store can write together.

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
