"""Values of labels: few, known beforehand or counted, and never what users wrote."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from prometheus_client import Counter, Histogram

OTHER = "other"
"""In place of every value beyond the limit, and of every one that is not known."""
_LONGEST = 100

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
M = TypeVar("M", Counter, Histogram)


class FewNames:
    """Lets the first names through that it sees, and calls all others `OTHER`.

    Names come from providers and settings, so there may be any number of them; a label may not.
    """

    __slots__ = ("_known", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """The name, shortened and printable, or `OTHER`."""
        known = self._known.get(name)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return OTHER
        shown = "".join(char if char.isprintable() else "?" for char in name[:_LONGEST])
        self._known[name] = shown or OTHER
        return self._known[name]


def one_of(value: object, known: Collection[str]) -> str:
    """The value if it is known, else `OTHER`."""
    return value if isinstance(value, str) and value in known else OTHER


class Series(Generic[M]):
    """The series of a metric by the values of its labels, each made once.

    The library's own `labels` takes a lock and looks at every value again, for every event.
    """

    __slots__ = ("_made", "_metric")

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._made: dict[tuple[str, ...], M] = {}

    def __call__(self, *labels: str) -> M:
        """The series of these values."""
        made = self._made.get(labels)
        if made is None:
            made = self._made[labels] = self._metric.labels(*labels)
        return made


class Remembered(Generic[K, V]):
    """The last things that were put in, by key; the oldest are forgotten."""

    __slots__ = ("_items", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._items)

    def put(self, key: K, value: V) -> None:
        """Remember it, unless something is known under the key."""
        if key not in self._items:
            if len(self._items) >= self._most:
                del self._items[next(iter(self._items))]
            self._items[key] = value

    def take(self, key: K) -> V | None:
        """What was put in, which is forgotten then; `None` if there is nothing."""
        return self._items.pop(key, None)
