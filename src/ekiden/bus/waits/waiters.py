"""Waits for answers in this process, and their deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors.messages import BusError
from ekiden.storage.records import MessageState, StoredMessage

Ending: TypeAlias = tuple[MessageState | None, Any]
"""How a wait ended: with the state of the stored message and its answer, with `None` and an error,
or with `TIME_IS_OVER`."""

TIME_IS_OVER: Final[Ending] = (None, None)
_FEW = 64
SETTLED: Final[frozenset[MessageState]] = frozenset(
    {"answered", "failed", "timed_out", "cancelled", "late", "expired", "dead"}
)


class AwaitedAnswer:
    """A wait for one answer."""

    __slots__ = ("awaits", "before", "future", "is_known", "message", "node")

    def __init__(
        self,
        message: AgentMessage,
        node: str,
        awaits: str,
        is_known: bool,
        future: asyncio.Future[Ending],
    ) -> None:
        self.message = message
        self.node = node
        """The node that waits."""
        self.awaits = awaits
        """The node that should answer."""
        self.is_known = is_known
        """Whether all waits of the answering agent are in this process."""
        self.future = future
        self.before: AwaitedAnswer | None = None
        """An earlier wait for the same message."""

    def end(self, state: MessageState | None, answer: Any) -> bool:
        """Wake the waiter. Only the first call has an effect. Returns whether this call is the
        first."""
        if self.future.done():
            return False
        self.future.set_result((state, answer))
        return True

    def time_out(self) -> None:
        """Wake the waiter with a timeout, unless the wait has ended."""
        if not self.future.done():
            self.future.set_result(TIME_IS_OVER)


class Deadlines:
    """The deadlines of waits, with one timer for all of them.

    The deadline of an ended wait stays in the heap until it is due, or until most waits have ended.
    To remove it at once would take linear time, because it may be in the middle of the heap.
    """

    __slots__ = ("_heap", "_loop", "_most", "_number", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, AwaitedAnswer]] = []
        self._number = 0
        self._most = _FEW
        """The number of deadlines at which those of ended waits are removed."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: AwaitedAnswer, timeout_s: float) -> None:
        """End the wait with a timeout after `timeout_s` seconds."""
        self._number = number = self._number + 1
        heap = self._heap
        heappush(heap, (self._loop.time() + timeout_s, number, wait))
        # Only a new first deadline changes when the one timer has to ring.
        if heap[0][2] is wait:
            self._set_timer()
        elif len(heap) > self._most:
            heap[:] = [entry for entry in heap if not entry[2].future.done()]
            heapify(heap)
            self._most = 2 * len(heap) + _FEW

    def close(self) -> None:
        """Remove all deadlines."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        heap, now = self._heap, self._loop.time()
        # Waits that were answered are dropped as well, so that the timer does not ring for them.
        while heap and (heap[0][0] <= now or heap[0][2].future.done()):
            heappop(heap)[2].time_out()
        if heap:
            self._set_timer()


class Waits:
    """The waits of this process, by message and by node.

    A message has several waits if it is sent again, with the same id, during the first wait.
    """

    __slots__ = ("_by_key", "_empty", "_nodes")

    def __init__(self) -> None:
        self._by_key: dict[str, AwaitedAnswer] = {}
        """The last wait for each message."""
        self._nodes: dict[str, int] = {}
        """The number of waits of each node."""
        self._empty: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def keys(self) -> Collection[str]:
        """The ids of the awaited messages."""
        return self._by_key.keys()

    def has_node(self, node: str) -> bool:
        """Whether the node waits."""
        return node in self._nodes

    def add(self, wait: AwaitedAnswer) -> None:
        """Add a wait."""
        key, node = wait.message.id, wait.node
        wait.before = self._by_key.get(key)
        self._by_key[key] = wait
        self._nodes[node] = self._nodes.get(node, 0) + 1

    def remove(self, wait: AwaitedAnswer) -> bool:
        """Remove a wait, and return whether the message has no other wait."""
        key, node = wait.message.id, wait.node
        count = self._nodes[node]
        if count == 1:
            del self._nodes[node]
        else:
            self._nodes[node] = count - 1
        last = self._by_key[key]
        # Waits for one message form a linked list, the newest first; the removed one may be
        # anywhere in it.
        if last is not wait:
            while last.before is not wait:
                assert last.before is not None
                last = last.before
            last.before = wait.before
        elif wait.before is not None:
            self._by_key[key] = wait.before
        else:
            del self._by_key[key]
            if self._empty is not None and not self._by_key and not self._empty.done():
                self._empty.set_result(None)
            return True
        return False

    def end(self, key: str, state: MessageState, answer: Any) -> int:
        """End the waits for a settled message, and return the number of waits that had not ended
        before."""
        count, wait = 0, self._by_key.get(key)
        while wait is not None:
            count += wait.end(state, answer)
            wait = wait.before
        return count

    def end_found(self, rows: Iterable[StoredMessage]) -> int:
        """End the waits for the settled rows, and return the number of waits that had not ended
        before."""
        return sum(
            self.end(row.key, row.state, row.answer)
            for row in rows
            if row.key is not None and row.state != "open"
        )

    async def end_all(self, reason: str) -> None:
        """End all waits with a `BusError`, and return when all waits are removed.

        Each wait gets its own error, because a shared error would collect the tracebacks of all
        waits.
        """
        for last in self._by_key.values():
            wait: AwaitedAnswer | None = last
            while wait is not None:
                wait.end(None, BusError(reason))
                wait = wait.before
        if self._by_key:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty
