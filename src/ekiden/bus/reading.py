"""Messages as people and programs see them afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from ekiden.core.message_errors import MessageNotFound
from ekiden.core.messages import AgentMessage, Letter
from ekiden.storage.base import Store
from ekiden.storage.messages import MessageFilter, MessageState, StoredMessage

_PAGE = 500
_MAILBOX = "agent:"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message and what became of it."""

    message: AgentMessage
    state: MessageState
    attempts: int
    """How often it was delivered."""
    answer: Any = None
    """The payload of the answer."""
    error: str | None = None
    """Why it failed, or is dead."""
    error_code: str | None = None
    stored_at: float = 0.0
    """Seconds since 1970, on the store's clock."""
    ended_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As people and programs read it."""
        return {
            "message": self.message.to_json(),
            "state": self.state,
            "attempts": self.attempts,
            "answer": self.answer,
            "error": self.error,
            "error_code": self.error_code,
            "stored_at": self.stored_at,
            "ended_at": self.ended_at,
        }


async def read_message(store: Store, message_id: str) -> MessageRecord:
    """The message with this id; `MessageNotFound`."""
    rows = await store.find_messages(MessageFilter(keys=(message_id,)), limit=1)
    for row in rows:
        if row.queue.startswith(_MAILBOX):
            return record_of(row)
    raise MessageNotFound(message_id)


async def dead_letters(store: Store, *, agent: str | None, limit: int) -> list[MessageRecord]:
    """Messages that were given up, the oldest first."""
    found: list[MessageRecord] = []
    async for row in _rows(store, agent, "dead"):
        found.append(record_of(row))
        if len(found) == limit:
            break
    return found


async def depths(store: Store) -> dict[str, int]:
    """How many messages wait for each agent, those that are worked on included."""
    count = Counter([row.queue async for row in _rows(store, None, "open")])
    return {queue.removeprefix(_MAILBOX): count[queue] for queue in sorted(count)}


async def _rows(
    store: Store, agent: str | None, state: MessageState
) -> AsyncIterator[StoredMessage]:
    queue = None if agent is None else _MAILBOX + agent
    where = MessageFilter(queue=queue, states=frozenset({state}))
    after = 0
    while True:
        page = await store.find_messages(where, after=after, limit=_PAGE)
        for row in page:
            if row.queue.startswith(_MAILBOX):
                yield row
        if len(page) < _PAGE:
            return
        after = page[-1].id


def record_of(row: StoredMessage) -> MessageRecord:
    """What a stored message says, and what became of it."""
    answer = row.answer if isinstance(row.answer, dict) else {}
    return MessageRecord(
        message=_message(row),
        state=row.state,
        attempts=row.attempts,
        answer=answer.get("payload"),
        error=answer.get("error"),
        error_code=answer.get("code"),
        stored_at=row.created_at_us / 1e6,
        ended_at=None if row.settled_at_us is None else row.settled_at_us / 1e6,
    )


def _message(row: StoredMessage) -> AgentMessage:
    """The message; of what is no message of the bus, what can be told of it."""
    try:
        message = Letter.from_json(row.body).message
    except Exception:
        agent = row.queue.removeprefix(_MAILBOX)
        return AgentMessage(
            id=row.key or "", from_agent="?", to_agent=agent, payload=row.body, created_at=0.0
        )
    message.redelivered = row.attempts > 1
    return message
