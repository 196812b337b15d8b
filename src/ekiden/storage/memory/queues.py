"""The queues of the in-memory store: open messages in the order in which they are taken."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from ekiden.storage.records import MessageState, QueueMessage, QueuePut, StoredMessage
from ekiden.storage.values import copy_json


class MemoryMessage:
    """A stored message. `due` is when it may be taken; `None` if it can be taken now."""

    __slots__ = (
        "answer",
        "attempts",
        "body",
        "created_us",
        "dedup_key",
        "due",
        "expires",
        "id",
        "key",
        "owner",
        "priority",
        "queue",
        "session_id",
        "settled_us",
        "state",
        "waiter",
    )

    def __init__(self, message_id: int, put: QueuePut, body: Any) -> None:
        self.id = message_id
        self.queue = put.queue
        self.key = put.key
        self.body = body
        self.priority = put.priority
        self.dedup_key = put.dedup_key
        self.attempts = 0
        self.owner: str | None = None
        self.due: float | None = None
        self.expires: float | None = None
        self.state: MessageState = "open"
        self.waiter = put.waiter
        self.session_id = put.session_id
        self.answer: Any = None
        self.created_us = 0
        self.settled_us: int | None = None

    def was_last_delivered_as(self, delivery: QueueMessage) -> bool:
        """Whether this is the last delivery of the message."""
        return (
            self.id == delivery.id
            and self.owner == delivery.owner
            and self.attempts == delivery.attempts
        )

    def has_expired(self, now: float) -> bool:
        """Whether the open message is expired and not leased."""
        is_free = self.due is None or self.due <= now
        return is_free and self.expires is not None and self.expires <= now

    def delivery(self, owner: str) -> QueueMessage:
        """The delivery to its owner."""
        return QueueMessage(
            id=self.id,
            queue=self.queue,
            body=copy_json(self.body),
            priority=self.priority,
            attempts=self.attempts,
            owner=owner,
            key=self.key,
        )

    def stored(self) -> StoredMessage:
        """The result of `find_messages`."""
        return StoredMessage(
            id=self.id,
            queue=self.queue,
            key=self.key,
            body=copy_json(self.body),
            priority=self.priority,
            attempts=self.attempts,
            owner=self.owner,
            state=self.state,
            waiter=self.waiter,
            session_id=self.session_id,
            answer=copy_json(self.answer),
            created_at_us=self.created_us,
            settled_at_us=self.settled_us,
        )


class MemoryQueue:
    """Open messages by priority and age; times are those of the caller's clock.

    A message is in the heap `_line` when it can be taken, and in `_later` while it is delayed or
    leased. Outdated entries stay in the heaps and are skipped when they come up, because removing
    an entry from the middle of a heap would take linear time.
    """

    __slots__ = ("_later", "_line", "dedup_keys", "open")

    def __init__(self) -> None:
        self.open: dict[int, MemoryMessage] = {}
        """The open messages by id, in the order of ids."""
        self.dedup_keys: set[str] = set()
        self._line: list[tuple[int, int]] = []
        self._later: list[tuple[float, int]] = []

    def add(self, message: MemoryMessage, put: QueuePut, now: float) -> None:
        """Add a new message; each id is higher than the last."""
        self.open[message.id] = message
        if put.dedup_key is not None:
            self.dedup_keys.add(put.dedup_key)
        if put.ttl_s is not None:
            message.expires = now + put.ttl_s
        if put.taken_by is not None:
            message.owner = put.taken_by
            message.attempts = 1
            self._delay(message, now + put.lease_s)
        elif put.delay_s > 0:
            self._delay(message, now + put.delay_s)
        else:
            self._line_up(message)

    def reopen(self, message: MemoryMessage) -> None:
        """Add a message again that was removed."""
        self.open[message.id] = message
        # `_by_age` relies on the order of ids, and this one is older than the last.
        self.open = dict(sorted(self.open.items()))
        self._line_up(message)

    def remove(self, message: MemoryMessage) -> None:
        """Remove a message that was settled or deleted."""
        del self.open[message.id]
        message.due = None
        if message.dedup_key is not None:
            self.dedup_keys.discard(message.dedup_key)
            message.dedup_key = None

    def take(
        self, *, owner: str, lease_s: float, limit: int, oldest_first: bool, now: float
    ) -> tuple[list[MemoryMessage], list[MemoryMessage]]:
        """The next messages, leased to `owner`, and the expired ones, which are removed."""
        taken: list[MemoryMessage] = []
        expired: list[MemoryMessage] = []
        if limit < 1:
            return taken, expired
        self._collect(now)
        for message in self._by_age() if oldest_first else self._by_priority():
            if message.expires is not None and message.expires <= now:
                expired.append(message)
                continue
            message.owner = owner
            message.attempts += 1
            self._delay(message, now + lease_s)
            taken.append(message)
            if len(taken) == limit:
                break
        for message in expired:
            self.remove(message)
        return taken, expired

    def release(self, message: MemoryMessage, *, delay_s: float, now: float) -> None:
        """Put an open message back in its place."""
        message.owner = None
        if delay_s > 0:
            self._delay(message, now + delay_s)
        else:
            self._line_up(message)

    def _by_priority(self) -> Iterator[MemoryMessage]:
        while self._line:
            message = self.open.get(heappop(self._line)[1])
            if message is not None and message.due is None:
                yield message

    def _by_age(self) -> Iterator[MemoryMessage]:
        return (message for message in self.open.values() if message.due is None)

    def _line_up(self, message: MemoryMessage) -> None:
        message.due = None
        heappush(self._line, (-message.priority, message.id))
        # Rebuild the heap when most of its entries are outdated, so that it cannot grow for ever.
        if len(self._line) > 2 * len(self.open) + 64:
            self._line = [
                (-each.priority, each.id) for each in self.open.values() if each.due is None
            ]
            heapify(self._line)

    def _delay(self, message: MemoryMessage, due: float) -> None:
        message.due = due
        heappush(self._later, (due, message.id))
        if len(self._later) > 2 * len(self.open) + 64:
            self._later = [
                (each.due, each.id) for each in self.open.values() if each.due is not None
            ]
            heapify(self._later)

    def _collect(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            due, message_id = heappop(self._later)
            message = self.open.get(message_id)
            # An entry with another time is outdated: the message was released or taken again since.
            if message is not None and message.due == due:
                self._line_up(message)
