"""Messages of the bus as JSON, found by who gets them and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ekiden.bus.reading import record_of
from ekiden.core.errors import UserError
from ekiden.core.message_errors import MessageNotFound
from ekiden.core.messages import agent_queue
from ekiden.storage.base import MessageFilter, Store, StoredMessage
from ekiden.storage.messages import MessageState

_PAGE: Final = 200
_LONGEST_CURSOR: Final = 18
_MAILBOXES: Final = agent_queue("")
_SESSION: Final = "session:"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """Some messages, the oldest first, and how to get the next ones."""

    messages: list[dict[str, Any]]
    next_cursor: str | None


def message_record(row: StoredMessage) -> dict[str, Any]:
    """A message with what became of it, who waits for its answer and which session gives it."""
    owner = row.owner or ""
    return {
        **record_of(row).to_json(),
        "waiter": row.waiter,
        "asked_in": row.session_id,
        "answered_in": owner.removeprefix(_SESSION) if owner.startswith(_SESSION) else None,
    }


async def read_message(store: Store, message_id: str) -> dict[str, Any]:
    """The message with this id; `MessageNotFound`."""
    rows = await store.find_messages(MessageFilter(keys=(message_id,)), limit=1)
    for row in rows:
        if row.queue.startswith(_MAILBOXES):
            return message_record(row)
    raise MessageNotFound(message_id)


async def find_messages(
    store: Store,
    *,
    agent: str | None,
    state: MessageState | None,
    waiter: str | None,
    session_id: str | None,
    limit: int,
    cursor: str | None,
) -> MessagePage:
    """One page of messages between agents; `UserError` for a cursor that is none."""
    where = MessageFilter(
        queue=None if agent is None else agent_queue(agent),
        states=None if state is None else {state},
        waiters=None if waiter is None else {waiter},
        session_id=session_id,
    )
    after = _number(cursor)
    found: list[StoredMessage] = []
    while True:
        page = await store.find_messages(where, after=after, limit=_PAGE)
        for row in page:
            if not row.queue.startswith(_MAILBOXES):
                continue
            if len(found) == limit:
                return _page(found, str(found[-1].id))
            found.append(row)
        if len(page) < _PAGE:
            return _page(found, None)
        after = page[-1].id


def _page(rows: list[StoredMessage], next_cursor: str | None) -> MessagePage:
    return MessagePage(messages=[message_record(row) for row in rows], next_cursor=next_cursor)


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _LONGEST_CURSOR):
        raise UserError(
            f"{cursor[:40]!r} is not a cursor of messages: pass the `next_cursor` of a page"
        )
    return int(cursor)
