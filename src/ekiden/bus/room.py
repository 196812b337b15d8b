"""Senders who wait because a mailbox is full."""

from __future__ import annotations

import asyncio
from collections import deque

_FEW = 16


class Room:
    """Who waits for room in which mailbox, first come, first served."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, agent: str, timeout_s: float, *, again: bool) -> None:
        """Return when there may be room, or after the time-out; whoever comes `again`, because
        there was none, is the next."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._waiting.setdefault(agent, deque())
        if again:
            line.appendleft(future)
        else:
            line.append(future)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
        finally:
            if not future.done():
                line.remove(future)
                if not line and self._waiting.get(agent) is line:
                    del self._waiting[agent]

    def made(self, agent: str, count: int = 1) -> None:
        """There is room for so many in the mailbox."""
        line = self._waiting.get(agent)
        if line is None:
            return
        while line and count:
            future = line.popleft()
            if not future.done():
                future.set_result(None)
                count -= 1
        if not line:
            del self._waiting[agent]

    def maybe(self) -> None:
        """Somebody changed something: a few shall try."""
        for agent in list(self._waiting):
            self.made(agent, _FEW)
