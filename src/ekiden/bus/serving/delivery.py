"""A message that a service handles, and the queue of those that are not begun."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from heapq import heapify, heappop, heappush
from typing import Literal, TypeAlias

from ekiden.core.conversation.messages import AgentMessage, agent_queue
from ekiden.storage.messages import QueueMessage

Stage: TypeAlias = Literal["line", "running", "ending", "later", "gone"]
"""`line`: not begun; `running`: with the handler; `ending`: its end is being stored; `later`: to
be answered with `Bus.respond`; `gone`: this service has nothing more to do with it."""
CURRENT: ContextVar[Delivery | None] = ContextVar("ekiden_bus_delivery", default=None)
"""What the running code works on; also in tasks that a handler has started and left behind, so
whoever looks asks whether it is still running."""
_FEW = 128


class Delivery:
    """A message that this process has taken and not settled yet."""

    __slots__ = (
        "attempts",
        "began",
        "expires",
        "message",
        "node",
        "number",
        "overdue",
        "stage",
        "task",
        "work",
    )

    def __init__(
        self,
        message: AgentMessage,
        number: int,
        attempts: int,
        expires: float | None,
    ) -> None:
        self.message = message
        self.number = number
        """Of the stored row: the order in which messages came."""
        self.attempts = attempts
        self.expires = expires
        """In the time of the event loop."""
        self.stage: Stage = "line"
        self.task = message.task or message.id
        """What it is a part of."""
        self.node = ""
        """Who waits, in the graph of waits, if the handler does."""
        self.work: asyncio.Task[None] | None = None
        self.began = 0.0
        self.overdue = False
        """Cancelled because it took too long."""

    def row(self, owner: str) -> QueueMessage:
        """The delivery as the store knows it."""
        return QueueMessage(
            id=self.number,
            queue=agent_queue(self.message.to_agent or ""),
            body=None,
            priority=self.message.priority,
            attempts=self.attempts,
            owner=owner,
            key=self.message.id,
        )


def current_delivery() -> Delivery | None:
    """What the running code works on; `None` outside of handlers."""
    delivery = CURRENT.get()
    return delivery if delivery is not None and delivery.stage == "running" else None


class DeliveryQueue:
    """Deliveries by priority, then by age; one of every few is the oldest, whatever its priority.

    Each is in two heaps. An entry that left the line in one is skipped in the other.
    """

    __slots__ = ("_by_age", "_by_priority", "_count", "_oldest_every", "_pushed", "_taken")

    def __init__(self, oldest_every: int) -> None:
        self._oldest_every = oldest_every
        self._by_priority: list[tuple[int, int, int, Delivery]] = []
        self._by_age: list[tuple[int, int, Delivery]] = []
        self._pushed = 0
        """Decides when a message stands in line again before it was skipped for the first time."""
        self._count = 0
        self._taken = 0

    def __len__(self) -> int:
        return self._count

    def push(self, delivery: Delivery) -> None:
        """Stand in line."""
        self._pushed += 1
        number, turn = delivery.number, self._pushed
        heappush(self._by_priority, (-delivery.message.priority, number, turn, delivery))
        heappush(self._by_age, (number, turn, delivery))
        self._count += 1
        if len(self._by_age) + len(self._by_priority) > 4 * self._count + _FEW:
            self._sweep()

    def pop(self) -> Delivery | None:
        """The next one, which leaves the line."""
        self._taken += 1
        oldest_first = self._taken % self._oldest_every == 0
        while self._count:
            delivery = heappop(self._by_age)[2] if oldest_first else heappop(self._by_priority)[3]
            if delivery.stage == "line":
                self.leave(delivery)
                return delivery
        self._by_priority.clear()
        self._by_age.clear()
        return None

    def _sweep(self) -> None:
        """Let go of those who have left."""
        self._by_age = [entry for entry in self._by_age if entry[2].stage == "line"]
        self._by_priority = [entry for entry in self._by_priority if entry[3].stage == "line"]
        heapify(self._by_age)
        heapify(self._by_priority)

    def leave(self, delivery: Delivery) -> None:
        """Remove it from the line."""
        delivery.stage = "gone"
        self._count -= 1

    def drain(self) -> list[Delivery]:
        """All of them, by age; the line is empty."""
        left = [entry[2] for entry in sorted(self._by_age) if entry[2].stage == "line"]
        for delivery in left:
            self.leave(delivery)
        self._by_age.clear()
        self._by_priority.clear()
        return left
