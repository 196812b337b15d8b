"""What the parts of a bus share."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

from ekiden.bus.postings import DirectPostings, GroupPostings, Postings
from ekiden.bus.presence import Presence
from ekiden.bus.settings import BusSettings
from ekiden.bus.waits.waiters import Deadlines, Waits
from ekiden.core.current_agent import inherited_agent
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore

_log = logging.getLogger("ekiden.bus")

_FEW = 16


class MailboxRoom:
    """Who waits for room in which mailbox, first come, first served."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, agent: str, timeout_s: float, *, again: bool) -> None:
        """Return when there may be room, or after the timeout; a caller that comes `again`, because
        there was none, is next."""
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
        """Something changed: let a few try."""
        for agent in list(self._waiting):
            self.made(agent, _FEW)


class BusParts:
    """One bus at work in one event loop."""

    __slots__ = (
        "_tasks",
        "deadlines",
        "direct",
        "inherited",
        "loop",
        "owner",
        "postings",
        "presence",
        "room",
        "settings",
        "store",
        "waits",
    )

    def __init__(self, store: Store, settings: BusSettings, owner: str) -> None:
        self.store = store
        self.settings = settings
        self.owner = owner
        """Who this bus is, for what it takes."""
        self.inherited = inherited_agent()
        """The agent whose this whole process is."""
        self.loop = asyncio.get_running_loop()
        self.direct = (
            DirectPostings(store, settings.keep_most) if isinstance(store, MemoryStore) else None
        )
        """What writes at once, if something does."""
        self.postings: Postings = self.direct or GroupPostings(store)
        self.deadlines = Deadlines(self.loop)
        self.presence = Presence(store, owner, settings.visibility_s)
        self.waits = Waits()
        self.room = MailboxRoom()
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do it beside; `finish` waits for it."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(exc := task.exception(), Exception):
            _log.error("a background task of the bus failed: %s", exc, exc_info=exc)

    async def finish(self) -> None:
        """Return when everything that was begun beside is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.postings.close()
        self.deadlines.close()
