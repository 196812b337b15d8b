"""Who is next among the messages that a service has taken and not begun."""

from __future__ import annotations

from heapq import heappop, heappush

from ekiden.bus.delivery import Delivery


class Line:
    """Deliveries by priority, then by age; one of every few is the oldest, whatever its priority.

    Each is in two heaps. Whoever has left the line in one way is skipped in the other.
    """

    __slots__ = ("_by_age", "_by_priority", "_count", "_oldest_every", "_taken")

    def __init__(self, oldest_every: int) -> None:
        self._oldest_every = oldest_every
        self._by_priority: list[tuple[int, int, Delivery]] = []
        self._by_age: list[tuple[int, Delivery]] = []
        self._count = 0
        self._taken = 0

    def __len__(self) -> int:
        return self._count

    def push(self, delivery: Delivery) -> None:
        """Stand in line; no two have the same number."""
        heappush(self._by_priority, (-delivery.message.priority, delivery.number, delivery))
        heappush(self._by_age, (delivery.number, delivery))
        self._count += 1

    def pop(self) -> Delivery | None:
        """The next one, which leaves the line."""
        self._taken += 1
        oldest_first = self._taken % self._oldest_every == 0
        while self._count:
            delivery = heappop(self._by_age)[1] if oldest_first else heappop(self._by_priority)[2]
            if delivery.stage == "line":
                self.leave(delivery)
                return delivery
        self._by_priority.clear()
        self._by_age.clear()
        return None

    def leave(self, delivery: Delivery) -> None:
        """Whoever is in line goes."""
        delivery.stage = "gone"
        self._count -= 1

    def drain(self) -> list[Delivery]:
        """All of them, by age; the line is empty."""
        left = [delivery for _, delivery in sorted(self._by_age, key=_number)]
        left = [delivery for delivery in left if delivery.stage == "line"]
        for delivery in left:
            self.leave(delivery)
        return left


def _number(entry: tuple[int, Delivery]) -> int:
    return entry[0]
