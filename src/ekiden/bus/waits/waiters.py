"""Waits of this process: for answers, or for room in a full mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors.messages import BusError
from ekiden.storage.records import MessageState, StoredMessage

Ending: TypeAlias = tuple[MessageState | None, Any]
"""How a wait ended: the state of the stored message and its answer, or `None` and the error that
ended it, or `TIME_IS_OVER`."""

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
        """Who waits, in the graph of waits."""
        self.awaits = awaits
        """For whom."""
        self.is_known = is_known
        """Whether all waits of the answering agent are in this process."""
        self.future = future
        self.before: AwaitedAnswer | None = None
        """Another one for the same message."""

    def end(self, state: MessageState | None, answer: Any) -> bool:
        """Wake the waiter; the first ending counts: returns whether this is it."""
        if self.future.done():
            return False
        self.future.set_result((state, answer))
        return True

    def time_out(self) -> None:
        """The time is over."""
        if not self.future.done():
            self.future.set_result(TIME_IS_OVER)


class Deadlines:
    """When waits are over; one timer for all of them.

    What has ended stays until its time comes, or until most have.
    """

    __slots__ = ("_heap", "_loop", "_most", "_number", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, AwaitedAnswer]] = []
        self._number = 0
        self._most = _FEW
        """When there are so many it is time to see which have ended."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: AwaitedAnswer, timeout_s: float) -> None:
        """End the wait after so long."""
        due = self._loop.time() + timeout_s
        self._number += 1
        heap = self._heap
        heappush(heap, (due, self._number, wait))
        # Only a new first deadline changes when the one timer has to ring.
        if heap[0][2] is wait:
            self._set_timer()
        elif len(heap) > self._most:
            heap[:] = [entry for entry in heap if not entry[2].future.done()]
            heapify(heap)
            self._most = 2 * len(heap) + _FEW

    def close(self) -> None:
        """End all waits."""
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
    """Who waits, by message and by node in the graph of waits.

    One message has several if it is asked again, with the same id, while the first one waits.
    """

    __slots__ = ("_by_key", "_empty", "_nodes")

    def __init__(self) -> None:
        self._by_key: dict[str, AwaitedAnswer] = {}
        """The last one of each message."""
        self._nodes: dict[str, int] = {}
        self._empty: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def keys(self) -> Collection[str]:
        """The ids of the messages whose answers are waited for."""
        return self._by_key.keys()

    def has_node(self, node: str) -> bool:
        """Whether the node waits for something."""
        return node in self._nodes

    def add(self, wait: AwaitedAnswer) -> None:
        """Begin to wait."""
        key, node = wait.message.id, wait.node
        wait.before = self._by_key.get(key)
        self._by_key[key] = wait
        self._nodes[node] = self._nodes.get(node, 0) + 1

    def remove(self, wait: AwaitedAnswer) -> bool:
        """Stop waiting; returns whether the message has no waiter now."""
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
        """The message is settled; how many did not know."""
        count, wait = 0, self._by_key.get(key)
        while wait is not None:
            count += wait.end(state, answer)
            wait = wait.before
        return count

    def end_found(self, rows: Iterable[StoredMessage]) -> int:
        """End what is settled in the store; how many did not know."""
        return sum(
            self.end(row.key, row.state, row.answer)
            for row in rows
            if row.key is not None and row.state != "open"
        )

    async def end_all(self, reason: str) -> None:
        """There will be no answer: all waits raise `BusError`. Returns when they have ended.

        Each has an error of its own: a shared one would collect the tracebacks of all.
        """
        for last in self._by_key.values():
            wait: AwaitedAnswer | None = last
            while wait is not None:
                wait.end(None, BusError(reason))
                wait = wait.before
        if self._by_key:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty
