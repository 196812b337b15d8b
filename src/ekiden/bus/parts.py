"""What the parts of a bus share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ekiden.bus.postings import DirectPostings, GroupPostings, Postings
from ekiden.bus.presence import Presence
from ekiden.bus.room import Room
from ekiden.bus.settings import BusSettings
from ekiden.bus.waiting import Deadlines, Waits
from ekiden.core.acting import inherited_agent
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore

_log = logging.getLogger("ekiden.bus")


class Parts:
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
        self.room = Room()
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
            _log.error("something that the bus did beside failed: %s", exc, exc_info=exc)

    async def finish(self) -> None:
        """Return when everything that was begun beside is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.postings.close()
        self.deadlines.close()
