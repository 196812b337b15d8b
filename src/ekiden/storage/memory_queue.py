"""The queues of the in-memory store."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from ekiden.core.errors import QueueFull
from ekiden.storage.base import QueueMessage, QueuePut
from ekiden.storage.values import checked_copy, copy_json

Staged: TypeAlias = Sequence[tuple[QueuePut, Any]]
"""Messages that are to be stored, each with its own copy of the body."""


class _Entry:
    """A message in the queue. `due` is when it may be taken; `None` while it stands in line."""

    __slots__ = ("attempts", "body", "dedup_key", "due", "id", "owner", "priority")

    def __init__(self, message_id: int, put: QueuePut, body: Any) -> None:
        self.id = message_id
        self.body = body
        self.priority = put.priority
        self.dedup_key = put.dedup_key
        self.attempts = 0
        self.owner: str | None = None
        self.due: float | None = None


class MemoryQueue:
    """Messages by priority and age; times are whatever clock the caller reads.

    A message is in `_line` when it can be taken, and in `_later` while it is delayed or with a
    taker. Entries of either heap that the message has left behind are skipped when they come up.
    """

    __slots__ = ("_entries", "_keys", "_later", "_line", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._entries: dict[int, _Entry] = {}
        self._keys: dict[str, int] = {}
        self._line: list[tuple[int, int]] = []
        self._later: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def has_key(self, dedup_key: str) -> bool:
        """Whether a message with this key is here, taken or not."""
        return dedup_key in self._keys

    def put(self, message_id: int, put: QueuePut, body: Any, *, now: float) -> None:
        """Store a message; ids rise from one to the next."""
        entry = _Entry(message_id, put, body)
        self._entries[message_id] = entry
        if put.dedup_key is not None:
            self._keys[put.dedup_key] = message_id
        self._return(entry, put.delay_s, now)

    def take(self, *, owner: str, lease_s: float, limit: int, now: float) -> list[QueueMessage]:
        """The next messages in line, leased to `owner`."""
        self._collect(now)
        taken: list[QueueMessage] = []
        while self._line and len(taken) < limit:
            entry = self._entries.get(heappop(self._line)[1])
            if entry is None or entry.due is not None:
                continue
            entry.owner = owner
            entry.attempts += 1
            self._wait(entry, now + lease_s)
            taken.append(
                QueueMessage(
                    id=entry.id,
                    queue=self._name,
                    body=copy_json(entry.body),
                    priority=entry.priority,
                    attempts=entry.attempts,
                    owner=owner,
                )
            )
        return taken

    def ack(self, message: QueueMessage) -> bool:
        """Remove the message if this delivery is its last."""
        entry = self._current(message)
        if entry is None:
            return False
        del self._entries[entry.id]
        if entry.dedup_key is not None:
            del self._keys[entry.dedup_key]
        return True

    def release(self, message: QueueMessage, *, delay_s: float, now: float) -> bool:
        """Put the message back in its place if this delivery is its last."""
        entry = self._current(message)
        if entry is None:
            return False
        entry.owner = None
        self._return(entry, delay_s, now)
        return True

    def _current(self, message: QueueMessage) -> _Entry | None:
        entry = self._entries.get(message.id)
        if entry is None or entry.owner != message.owner or entry.attempts != message.attempts:
            return None
        return entry

    def _return(self, entry: _Entry, delay_s: float, now: float) -> None:
        if delay_s > 0:
            self._wait(entry, now + delay_s)
        else:
            entry.due = None
            heappush(self._line, (-entry.priority, entry.id))

    def _wait(self, entry: _Entry, due: float) -> None:
        entry.due = due
        heappush(self._later, (due, entry.id))
        if len(self._later) > 2 * len(self._entries) + 64:
            self._later = [
                (each.due, each.id) for each in self._entries.values() if each.due is not None
            ]
            heapify(self._later)

    def _collect(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            due, message_id = heappop(self._later)
            entry = self._entries.get(message_id)
            if entry is not None and entry.due == due:
                entry.due = None
                heappush(self._line, (-entry.priority, entry.id))


class MemoryQueues(dict[str, MemoryQueue]):
    """Queues by name; one that nobody wrote to is empty."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def __missing__(self, name: str) -> MemoryQueue:
        return MemoryQueue(name)

    def stage(self, messages: Sequence[QueuePut]) -> Staged:
        """Those that are to be stored; `QueueFull`, `UserError` before anything is."""
        staged: list[tuple[QueuePut, Any]] = []
        keys: set[tuple[str, str]] = set()
        added: dict[str, int] = {}
        for put in messages:
            body = checked_copy(put.body, "a message for queue {!r}", put.queue)
            queue = self[put.queue]
            if put.dedup_key is not None:
                at = (put.queue, put.dedup_key)
                if at in keys or queue.has_key(put.dedup_key):
                    continue
                keys.add(at)
            count = added.get(put.queue, 0)
            if put.bound is not None and count + len(queue) >= put.bound:
                raise QueueFull(put.queue, put.bound)
            added[put.queue] = count + 1
            staged.append((put, body))
        return staged

    def put(self, staged: Staged, *, now: float) -> None:
        """Store them."""
        for put, body in staged:
            self._count += 1
            queue = self.setdefault(put.queue, MemoryQueue(put.queue))
            queue.put(self._count, put, body, now=now)
