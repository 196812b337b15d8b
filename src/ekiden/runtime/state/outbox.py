"""What observers of a run are shown while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event


class Outbox:
    """Stored events and pieces of answers, in the order in which observers are shown them."""

    __slots__ = ("_loop", "_news", "_place", "_published", "_seen", "held_back", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Event | ModelDelta] = []
        """What nobody was shown yet."""
        self.held_back: list[ModelDelta] = []
        """Pieces of the last answer that nobody is shown before guardrails let it through."""
        self._published: list[tuple[str, Any]] = []
        """What the turn published and showed before it was stored, with the key of its step."""
        self._place = 0
        """How much of it the step under way published again."""
        self._news: asyncio.Event | None = None
        self._seen: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def show(self, shown: ModelDelta | Event) -> None:
        """Show observers a piece of an answer, which is not stored, or what happened in a session
        that answers this one. Tools in threads may show something, too."""
        self.waiting.append(shown)
        if self._news is not None:
            if self._loop is _running_loop():
                self._news.set()
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(self._news.set)

    def show_answer(self) -> None:
        """The answer was let through: show observers the pieces that were held back."""
        for each in self.held_back:
            self.show(each)
        self.held_back = []

    def show_published(
        self, key: str, published: ModelDelta, show: Callable[[ModelDelta], None]
    ) -> None:
        """Show what the step of this `key` published.

        Code that waited for an answer is run again from its beginning: what it published before is
        not shown again.
        """
        place, self._place = self._place, self._place + 1
        told = (key, published.data)
        if self._published[place : place + 1] != [told]:
            self._published = [*self._published[:place], told]
            show(published)

    def discard(self) -> None:
        """The step under way begins anew."""
        self._place = 0

    def announce(self) -> None:
        """Something was stored: observers have something to look at."""
        if self._news is not None:
            self._news.set()

    def take(self) -> list[Event | ModelDelta]:
        """What is new for an observer."""
        taken, self.waiting = self.waiting, []
        return taken

    def watch(self) -> asyncio.Event:
        """Set whenever there is something to `take`."""
        if self._news is None:
            self._news = asyncio.Event()
            self._loop = asyncio.get_running_loop()
        return self._news

    async def until_seen(self) -> None:
        """Return when whoever watches the run has seen everything that happened so far."""
        while self._news is not None and self.waiting:
            self._news.set()
            self._seen = self._seen or asyncio.Event()
            await self._seen.wait()

    def note_all_seen(self) -> None:
        """Whoever watches the run has seen everything that happened so far."""
        if self._seen is not None:
            self._seen.set()
            self._seen = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
