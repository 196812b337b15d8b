"""Events of the sessions that answer a run, at the moment when the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from ekiden.core.events import Event
from ekiden.server.streams.follow import watch_with_children


def event(session: str, seq: int, *, asks: str | None = None) -> Event:
    details = None if asks is None else {"asks": {"session": asks}}
    return Event(session_id=session, seq=seq, type="message", at_us=0, details=details)


class Journals:
    """Stored events, and live streams that show them once `released`."""

    def __init__(self, **events: list[Event]) -> None:
        self.stored = events
        self.released = {session: asyncio.Event() for session in events}

    async def events(self, session_id: str, *, after: int) -> list[Event]:
        return [each for each in self.stored[session_id] if each.seq > after]

    def follow(self, session_id: str, *, after: int) -> Following:
        return Following(self, session_id)


class Following:
    """The live stream of one session."""

    def __init__(self, journals: Journals, session_id: str) -> None:
        self.session_id = session_id
        self.after = 0
        self._journals = journals

    async def __aenter__(self) -> Following:
        return self

    def __aiter__(self) -> Following:
        return self

    async def __anext__(self) -> Event:
        await self._journals.released[self.session_id].wait()
        for found in await self._journals.events(self.session_id, after=self.after):
            self.after = found.seq
            return found
        await asyncio.Event().wait()
        raise AssertionError

    def close(self) -> None:
        """Nothing to close."""


async def test_the_last_event_of_an_asked_session_can_ask_another_one() -> None:
    run = [event("run", 1, asks="quick"), event("run", 2, asks="slow")]
    quick, last = event("quick", 1), event("slow", 1, asks="deep")
    journals = Journals(quick=[quick], slow=[last], deep=[event("deep", 1)])
    ends = asyncio.Event()

    async def watch(*_: Any, **options: Any) -> AsyncIterator[Event]:
        for each in run:
            yield each
        await ends.wait()

    desk: Any = SimpleNamespace(runs=SimpleNamespace(watch=watch), tails=journals, store=journals)
    shown = []
    watching = watch_with_children(desk, "run", after=0, through_waits=True, quiet_s=60)
    async for each in watching:
        found: Any = getattr(each, "shown", each)
        shown.append((found.session_id, found.seq))
        if found is run[-1]:
            ends.set()
            journals.released["quick"].set()
        elif found is quick:
            # The run has ended by now, and `slow` has its last event before it is stopped.
            journals.released["slow"].set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert shown == [("run", 1), ("run", 2), ("quick", 1), ("slow", 1), ("deep", 1)]
