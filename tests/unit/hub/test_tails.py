"""Following single sessions."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterable

import pytest

from ekiden import MemoryStore
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event
from ekiden.hub import EventHub, SessionTails, Tail
from ekiden.storage.base import Claim, Commit, NewSession, SessionPatch


class Desk:
    """A store whose sessions get events, and their followers."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.hub = EventHub(self.store)
        self.tails = SessionTails(self.store, self.hub)
        self.claims: dict[str, tuple[Claim, int]] = {}

    async def say(self, session: str, count: int = 1) -> list[Event]:
        """Store so many further events in one transaction."""
        if session not in self.claims:
            claim, _ = await self.store.claim(
                session, owner="o", lease_s=60, create=NewSession(id=session, agent="a")
            )
            self.claims[session] = claim, 0
        claim, last = self.claims[session]
        events = [event(session, last + each) for each in range(1, count + 1)]
        await self.store.commit(claim, Commit(patch=SessionPatch(), events=events))
        self.claims[session] = claim, last + count
        return events


def event(session: str, seq: int) -> Event:
    return Event(session_id=session, seq=seq, type="message", at_us=seq)


def numbers(shown: Iterable[object]) -> list[int]:
    return [each.seq for each in shown if isinstance(each, Event)]


async def take(tail: Tail, count: int) -> list[object]:
    return [await anext(tail) for _ in range(count)]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    async with desk.store, desk.hub:
        yield desk
        await desk.tails.close()


async def test_a_tail_delivers_past_events_then_new_ones(desk: Desk) -> None:
    await desk.say("s", 3)
    async with desk.tails.follow("s") as tail:
        assert numbers(await take(tail, 3)) == [1, 2, 3]
        await desk.say("s", 2)
        assert numbers(await take(tail, 2)) == [4, 5]


async def test_a_tail_starts_after_the_last_seen_event(desk: Desk) -> None:
    await desk.say("s", 5)
    async with desk.tails.follow("s", after=3) as tail:
        assert numbers(await take(tail, 2)) == [4, 5]
        assert tail.after == 5


async def test_a_repeated_event_is_delivered_once(desk: Desk) -> None:
    async with desk.tails.follow("s") as tail:
        [first] = await desk.say("s")
        desk.tails.show("s", first)
        desk.tails.show("s", first)
        assert numbers(await take(tail, 1)) == [1]
        await desk.say("s")
        assert numbers(await take(tail, 1)) == [2]


async def test_an_early_event_waits_for_the_events_before_it(desk: Desk) -> None:
    async with desk.tails.follow("s") as tail:
        events = await desk.say("s", 4)
        desk.tails.show("s", events[3])
        assert numbers(await take(tail, 4)) == [1, 2, 3, 4]


async def test_deltas_are_delivered_between_their_events(desk: Desk) -> None:
    tail = await desk.tails.prepared("s")
    with desk.tails.showing("s"):
        [first] = await desk.say("s")
        desk.tails.show("s", first)
        desk.tails.show("s", ModelDelta(kind="text", text="he"))
        [second] = await desk.say("s")
        await asyncio.sleep(0)
        desk.tails.show("s", ModelDelta(kind="text", text="llo"))
        desk.tails.show("s", second)
    assert numbers(await take(tail, 1)) == [1]
    shown = await take(tail, 3)
    tail.close()
    assert [each.text for each in shown if isinstance(each, ModelDelta)] == ["he", "llo"]
    assert isinstance(shown[2], Event)


async def test_a_tail_delivers_only_events_of_its_session(desk: Desk) -> None:
    async with desk.tails.follow("s") as tail, desk.tails.follow("t") as other:
        await desk.say("t", 3)
        await desk.say("s", 1)
        assert numbers(await take(tail, 1)) == [1]
        assert numbers(await take(other, 3)) == [1, 2, 3]


async def test_a_slow_reader_loses_nothing_and_buffers_little(desk: Desk) -> None:
    async with desk.tails.follow("s") as tail:
        for each in await desk.say("s", 2000):
            desk.tails.show("s", each)
        assert len(tail._ready) <= 512
        assert numbers(await take(tail, 2000)) == list(range(1, 2001))


async def test_a_cancelled_wait_loses_nothing(desk: Desk) -> None:
    async with desk.tails.follow("s") as tail:
        waiting = asyncio.create_task(anext(tail))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await desk.say("s", 2)
        assert numbers(await take(tail, 2)) == [1, 2]


async def test_a_session_is_wanted_while_it_is_followed(desk: Desk) -> None:
    assert not desk.tails.wants("s")
    async with desk.tails.follow("s"):
        assert desk.tails.wants("s")
    assert not desk.tails.wants("s")


async def test_closing_ends_the_waits_of_all_tails(desk: Desk) -> None:
    async with desk.tails.follow("s") as tail:
        waiting = asyncio.create_task(anext(tail, None))
        await asyncio.sleep(0)
        await desk.tails.close()
        assert await waiting is None
    async with desk.tails.follow("s") as late:
        assert await anext(late, None) is None
    assert desk.tails.is_closed


async def test_following_restarts_after_the_last_tail_was_closed(desk: Desk) -> None:
    async with desk.tails.follow("s"):
        pass
    await desk.say("s", 1)
    async with desk.tails.follow("s", after=1) as tail:
        await desk.say("s", 1)
        assert numbers(await take(tail, 1)) == [2]


async def test_a_tail_whose_start_was_cancelled_is_not_followed(desk: Desk) -> None:
    tail = desk.tails.follow("s")
    starting = asyncio.create_task(desk.tails.listen(tail))
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait((starting,))
    assert not desk.tails.wants("s")


async def test_many_readers_follow_many_sessions(desk: Desk) -> None:
    async def follow(name: str) -> list[int]:
        async with desk.tails.follow(name) as tail:
            return numbers(await take(tail, 20))

    names = [f"s{each}" for each in range(50)]
    following = [asyncio.create_task(follow(name)) for name in names]
    await asyncio.gather(*(desk.say(name, 10) for name in names))
    await asyncio.gather(*(desk.say(name, 10) for name in names))
    assert await asyncio.gather(*following) == [list(range(1, 21))] * 50


async def test_an_unread_tail_is_released_with_its_owner(desk: Desk) -> None:
    tail: Tail | None = await desk.tails.prepared("s")
    assert desk.tails.wants("s")
    del tail
    gc.collect()
    assert not desk.tails.wants("s")
    await desk.say("s")
