"""Who is next among the messages that a service has taken and not begun."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ekiden.bus.delivery import Delivery

_FEW = 128


class DeliveryQueue:
    """Deliveries by priority, then by age; one of every few is the oldest, whatever its priority.

    Each is in two heaps. Whoever has left the line in one way is skipped in the other.
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
        """Whoever is in line goes."""
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
