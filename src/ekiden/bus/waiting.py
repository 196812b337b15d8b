"""Those of this process who wait for answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, Final, TypeAlias

from ekiden.core.messages import AgentMessage
from ekiden.storage.messages import MessageState, StoredMessage

Ending: TypeAlias = tuple[MessageState | None, Any]
"""How a wait ended: the state of the stored message and its answer, or `None` and the error of
whoever ended it, or `TIME_IS_OVER`."""

TIME_IS_OVER: Final[Ending] = (None, None)
SETTLED: Final[frozenset[MessageState]] = frozenset(
    {"answered", "failed", "timed_out", "cancelled", "late", "expired", "dead"}
)


class Waiting:
    """One answer that somebody waits for."""

    __slots__ = ("awaits", "future", "is_known", "message", "node", "timer")

    def __init__(
        self,
        message: AgentMessage,
        *,
        node: str,
        awaits: str,
        is_known: bool,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.message = message
        self.node = node
        """Who waits, in the graph of waits."""
        self.awaits = awaits
        """For whom."""
        self.is_known = is_known
        """Whether all waits of whoever is to answer are of this process."""
        self.future: asyncio.Future[Ending] = loop.create_future()
        self.timer: asyncio.TimerHandle | None = None

    def end(self, state: MessageState | None, answer: Any) -> bool:
        """Tell whoever waits; the first ending counts: whether this is it."""
        if self.future.done():
            return False
        self.future.set_result((state, answer))
        return True

    def time_out(self) -> None:
        """The time is over."""
        if not self.future.done():
            self.future.set_result(TIME_IS_OVER)


class Waits:
    """Who waits, by message and by node in the graph of waits.

    One message has several if it is asked again, with the same id, while the first one waits.
    """

    __slots__ = ("_by_key", "_empty", "_nodes")

    def __init__(self) -> None:
        self._by_key: dict[str, list[Waiting]] = {}
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

    def add(self, wait: Waiting) -> None:
        """Begin to wait."""
        waits = self._by_key.get(wait.message.id)
        if waits is None:
            self._by_key[wait.message.id] = [wait]
        else:
            waits.append(wait)
        self._nodes[wait.node] = self._nodes.get(wait.node, 0) + 1

    def remove(self, wait: Waiting) -> bool:
        """Wait no more; whether nobody waits for this message now."""
        if wait.timer is not None:
            wait.timer.cancel()
            wait.timer = None
        count = self._nodes[wait.node]
        if count == 1:
            del self._nodes[wait.node]
        else:
            self._nodes[wait.node] = count - 1
        key = wait.message.id
        waits = self._by_key[key]
        if len(waits) == 1:
            del self._by_key[key]
            if self._empty is not None and not self._by_key and not self._empty.done():
                self._empty.set_result(None)
            return True
        waits.remove(wait)
        return False

    def end(self, key: str, state: MessageState, answer: Any) -> int:
        """The message is settled; how many did not know."""
        return sum([wait.end(state, answer) for wait in self._by_key.get(key, ())])

    def end_found(self, rows: Iterable[StoredMessage]) -> int:
        """End what is settled in the store; how many did not know."""
        return sum(
            self.end(row.key, row.state, row.answer)
            for row in rows
            if row.key is not None and row.state != "open"
        )

    async def end_all(self, error: Exception) -> None:
        """Nobody will answer: `error` is raised where somebody waits. Returns when nobody does."""
        for waits in self._by_key.values():
            for wait in waits:
                wait.end(None, error)
        if self._by_key:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty
