"""Messages of the bus as JSON, found by who gets them and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ekiden.bus.reading import MessageQuery, matching_rows, record_of
from ekiden.core.message_errors import MessageNotFound
from ekiden.core.messages import agent_queue
from ekiden.storage.base import MessageFilter, Store, StoredMessage

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
    query: MessageQuery,
    *,
    waiter: str | None,
    session_id: str | None,
    limit: int,
    cursor: str | None,
) -> MessagePage:
    """One page of messages between agents; `UserError` for a cursor that is none."""
    rows, next_cursor = await matching_rows(
        store, query, limit=limit, cursor=cursor, waiter=waiter, session_id=session_id
    )
    return MessagePage(messages=[message_record(row) for row in rows], next_cursor=next_cursor)
