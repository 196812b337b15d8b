"""The contract of events of no session, and of the feed of all events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from ekiden.core.errors import UserError
from ekiden.core.events import AUDITED, Event
from ekiden.storage.base import Batch, EventFilter, Store
from ekiden.testing.contracts.base import (
    AWKWARD_TEXTS,
    StoreContractBase,
    claimed,
    event,
    fields_of,
    step,
)
from ekiden.testing.contracts.batches import free_event, opening
from ekiden.testing.contracts.found import OLDEST_FIRST, all_pages, at, found, stored_in_sessions


async def stored_free(store: Store, *times: int) -> None:
    """Store events of no session with these times, one after the other."""
    for at_us in times:
        await store.write(Batch(events=[free_event(at_us)]))


@dataclass
class Follower:
    """Somebody who reads the feed and remembers the cursor."""

    store: Store
    after: str | None = None
    seen: list[str] = field(default_factory=list)

    async def read(self, limit: int = 100) -> list[str]:
        """What is new."""
        page = await self.store.feed(after=self.after, limit=limit)
        assert len(page.cursors) == len(page.events)
        assert page.next_cursor == (page.cursors[-1] if page.events else self.after)
        self.after = page.next_cursor
        ids = [each.event_id for each in page.events]
        self.seen += ids
        return ids


class FreeEventContract(StoreContractBase):
    """Events of no session."""

    async def test_they_are_numbered_by_the_store(self, store: Store, other: Store) -> None:
        await store.write(Batch(events=[free_event(5), free_event(6)]))
        await other.write(Batch(events=[free_event(4, seq=99)]))
        events = await store.events("")
        assert [(each.session_id, each.seq, each.at_us) for each in events] == [
            ("", 1, 5),
            ("", 2, 6),
            ("", 3, 4),
        ]
        assert [each.event_id for each in events] == ["/1", "/2", "/3"]

    async def test_they_are_whole(self, store: Store, other: Store) -> None:
        given = [
            free_event(
                number,
                type="message",
                agent="訳",
                step=f"1.{number}",
                duration_us=number,
                details={"text": text},
                items=({"content": text},),
                error=text,
            )
            for number, text in enumerate(AWKWARD_TEXTS, start=1)
        ]
        await store.write(Batch(events=given))
        expected = [
            Event(**{**{name: getattr(each, name) for name in Event.__slots__}, "seq": number})
            for number, each in enumerate(given, start=1)
        ]
        assert fields_of(await other.events("")) == fields_of(expected)
        page = await other.find_events(OLDEST_FIRST)
        assert fields_of(page.events) == fields_of(expected)
        assert fields_of((await other.feed()).events) == fields_of(expected)

    async def test_they_are_read_in_parts(self, store: Store) -> None:
        await store.write(Batch(events=[free_event(n) for n in range(1, 6)]))
        assert [each.seq for each in await store.events("", after=2, limit=2)] == [3, 4]
        assert list(await store.events("", with_items=True)) == []

    async def test_there_are_none_at_first(self, store: Store) -> None:
        assert list(await store.events("")) == []

    async def test_they_are_found_among_those_of_sessions(self, store: Store) -> None:
        await stored_in_sessions(store, at(10, "a", 1), at(30, "a", 2))
        await stored_free(store, 20, 30)
        assert await found(store, OLDEST_FIRST) == ["a/1", "/1", "/2", "a/2"]
        assert await found(store, EventFilter(types=AUDITED)) == ["a/2", "/2", "/1", "a/1"]
        assert await found(store, EventFilter(session_id="", newest_first=False)) == ["/1", "/2"]
        assert await found(store, EventFilter(types=["inbox"], since_us=30)) == ["/2"]
        assert await all_pages(store, OLDEST_FIRST, 1) == [["a/1"], ["/1"], ["/2"], ["a/2"]]

    async def test_no_session_appears_with_them(self, store: Store) -> None:
        await stored_free(store, 1)
        assert list((await store.list()).sessions) == []
        info = await store.info()
        assert (info["sessions"], info["events"]) == (0, 1)

    async def test_written_at_once_each_has_its_number(self, store: Store, other: Store) -> None:
        await asyncio.gather(
            *(
                (store, other)[n % 2].write(Batch(events=[free_event(n), free_event(n)]))
                for n in range(10)
            )
        )
        assert [each.seq for each in await store.events("")] == list(range(1, 21))

    async def test_what_they_carry_must_be_json(self, store: Store) -> None:
        if self.looks_into_events:
            with pytest.raises(UserError, match="`details`"):
                await store.write(Batch(events=[free_event(), free_event(details={"a": {1}})]))
            assert list(await store.events("")) == []


class FeedContract(StoreContractBase):
    """All events, each once, in the order in which they became visible."""

    async def test_the_feed_is_in_the_order_of_commits(self, store: Store, other: Store) -> None:
        a, b = await claimed(store, "a"), await claimed(other, "b")
        await other.commit(b, step(at(90, "b", 1), at(10, "b", 2)))
        await store.commit(a, step(at(50, "a", 1)))
        await stored_free(store, 99, 1)
        await other.commit(b, step(at(5, "b", 3)))
        await store.write(Batch(openings=[opening("new")]))
        expected = ["b/1", "b/2", "a/1", "/1", "/2", "b/3", "new/1", "new/2"]
        assert await Follower(other).read() == expected
        by_one = Follower(store)
        while await by_one.read(limit=1):
            pass
        assert by_one.seen == expected

    async def test_whoever_follows_sees_what_is_new(self, store: Store, other: Store) -> None:
        follower = Follower(other)
        assert await follower.read() == []
        claim = await claimed(store)
        await store.commit(claim, step(event(1)))
        assert await follower.read() == ["s/1"]
        assert await follower.read() == []
        await store.commit(claim, step(event(2), event(3)))
        await stored_free(store, 1)
        assert await follower.read(limit=2) == ["s/2", "s/3"]
        assert await follower.read() == ["/1"]

    async def test_one_can_begin_at_the_end(self, store: Store) -> None:
        for number in (1, 2):
            follower = Follower(store, after=await store.feed_end())
            assert await follower.read() == []
            await stored_free(store, 1)
            assert await follower.read() == [f"/{number}"]

    async def test_one_can_begin_after_any_event(self, store: Store) -> None:
        await stored_in_sessions(store, at(7, "a", 1), at(7, "a", 2), at(7, "b", 1))
        page = await store.feed()
        ids = [each.event_id for each in page.events]
        assert page.cursors[-1] == page.next_cursor == await store.feed_end()
        for number, cursor in enumerate(page.cursors, start=1):
            assert await Follower(store, after=cursor).read() == ids[number:]

    async def test_a_deleted_session_does_not_confuse_who_follows(self, store: Store) -> None:
        await stored_in_sessions(store, at(1, "a", 1), at(2, "b", 1), at(3, "b", 2))
        follower = Follower(store)
        await follower.read()
        await store.delete("b")
        assert await follower.read() == []
        end = await store.feed_end()
        await stored_in_sessions(store, at(4, "b", 1))
        assert await follower.read() == ["b/1"]
        assert await Follower(store, after=end).read() == ["b/1"]
        assert await Follower(store).read() == ["a/1", "b/1"]

    async def test_deleting_everything_again_and_again_does_not_either(self, store: Store) -> None:
        follower = Follower(store)
        for number in range(4):
            name = f"s{number}"
            await stored_in_sessions(store, *(at(seq, name, seq) for seq in range(1, 41)))
            assert await follower.read(limit=25) == [f"{name}/{n}" for n in range(1, 26)]
            await store.delete(name)
        assert await follower.read() == []
        assert (await store.feed()).events == []
        assert (await store.info())["events"] == 0
        assert await found(store) == []
        await stored_free(store, 1)
        assert await follower.read() == ["/1"]

    async def test_nobody_who_follows_misses_what_is_written_at_the_same_time(
        self, store: Store, other: Store
    ) -> None:
        claims = [await claimed((store, other)[n % 2], f"s{n}") for n in range(6)]
        follower = Follower(other)

        async def work(number: int) -> None:
            handle = (store, other)[number % 2]
            for seq in range(1, 6):
                own = event(seq, f"s{number}")
                await handle.commit(claims[number], step(own, release=seq == 5))
                await handle.write(Batch(events=[free_event(seq)]))
            if number == 0:
                await handle.delete("s0")

        async def follow(done: asyncio.Event) -> None:
            while not done.is_set():
                await follower.read(limit=3)
                await asyncio.sleep(0)

        done = asyncio.Event()
        following = asyncio.ensure_future(follow(done))
        await asyncio.gather(*(work(number) for number in range(6)))
        done.set()
        await following
        while await follower.read():
            pass
        assert len(follower.seen) == len(set(follower.seen))
        everything = {f"s{n}/{seq}" for n in range(6) for seq in range(1, 6)}
        everything |= {f"/{seq}" for seq in range(1, 31)}
        of_deleted = {f"s0/{seq}" for seq in range(1, 6)}
        assert everything - of_deleted <= set(follower.seen) <= everything
        for name in ("s1", "s5", ""):
            own = [each for each in follower.seen if each.startswith(f"{name}/")]
            assert own == sorted(own, key=lambda each: int(each.partition("/")[2]))

    @pytest.mark.parametrize("cursor", ["", "x", " 1", "1\n", "-1", "1.5.2.7.9", "١", "9" * 40])
    async def test_a_malformed_cursor_of_the_feed_is_the_callers_error(
        self, store: Store, cursor: str
    ) -> None:
        with pytest.raises(UserError, match="feed"):
            await store.feed(after=cursor)

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_page_of_nothing_of_the_feed_is_the_callers_error(
        self, store: Store, limit: int
    ) -> None:
        with pytest.raises(UserError, match="limit"):
            await store.feed(limit=limit)
