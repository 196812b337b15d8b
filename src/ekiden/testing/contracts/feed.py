"""The contract of reading the events of all sessions: pages of a search, and the feed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest

from ekiden.core.errors import UserError
from ekiden.core.events import AUDITED, Event, EventType
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

OLDEST_FIRST = EventFilter(newest_first=False)


def at(at_us: int, session_id: str, seq: int, type: EventType = "handoff", **fields: Any) -> Event:
    """An event with this time."""
    return Event(session_id=session_id, seq=seq, type=type, at_us=at_us, **fields)


async def stored_in_sessions(store: Store, *events: Event) -> None:
    """Store each event in its session, one session after the other."""
    for session_id in dict.fromkeys(each.session_id for each in events):
        claim = await claimed(store, session_id)
        own = [each for each in events if each.session_id == session_id]
        await store.commit(claim, step(*own, release=True))


async def found(store: Store, where: EventFilter = OLDEST_FIRST, **page: Any) -> list[str]:
    """The ids of the events of one page."""
    return [each.event_id for each in (await store.find_events(where, **page)).events]


async def all_pages(store: Store, where: EventFilter, limit: int) -> list[list[str]]:
    """The ids of the events on each page."""
    pages, cursor = [], None
    while True:
        page = await store.find_events(where, limit=limit, cursor=cursor)
        pages.append([each.event_id for each in page.events])
        cursor = page.next_cursor
        if cursor is None:
            return pages


class FoundEventContract(StoreContractBase):
    """Events of all sessions."""

    async def test_events_of_all_sessions_come_newest_first(self, store: Store) -> None:
        await stored_in_sessions(
            store, at(10, "a", 1), at(30, "a", 2), at(20, "b", 1), at(40, "b", 2)
        )
        assert await found(store, EventFilter()) == ["b/2", "a/2", "b/1", "a/1"]
        assert await found(store, OLDEST_FIRST) == ["a/1", "b/1", "a/2", "b/2"]

    async def test_found_events_have_all_fields(self, store: Store, other: Store) -> None:
        events = [
            at(
                seq,
                "s",
                seq,
                type,
                agent=f"Übersetzer 訳 {seq}",
                step=f"1.{seq}.h",
                duration_us=seq,
                details={"n": seq, "deep": [{"a": [None, True, 1.5]}]},
                items=({"role": "user", "content": f"{seq}"},),
                error=f"broken {seq}",
            )
            for seq, type in enumerate(get_args(EventType), start=1)
        ]
        await stored_in_sessions(store, *events, at(99, "t", 1))
        page = await other.find_events(EventFilter(newest_first=False, session_id="s"))
        assert fields_of(page.events) == fields_of(events)
        page = await other.find_events(EventFilter(session_id="t"))
        assert fields_of(page.events) == fields_of([at(99, "t", 1)])

    async def test_any_text_survives_in_a_found_event(self, store: Store) -> None:
        events = [
            at(seq, "s", seq, details={"text": text}, items=({"content": text},), error=text)
            for seq, text in enumerate(AWKWARD_TEXTS, start=1)
        ]
        await stored_in_sessions(store, *events)
        page = await store.find_events(OLDEST_FIRST)
        assert fields_of(page.events) == fields_of(events)

    async def test_events_with_equal_times_are_ordered_by_session_and_number(
        self, store: Store
    ) -> None:
        await stored_in_sessions(store, at(7, "z", 1), at(7, "z", 2), at(7, "a", 1), at(7, "a", 2))
        assert await found(store, OLDEST_FIRST) == ["z/1", "z/2", "a/1", "a/2"]
        assert await found(store, EventFilter()) == ["a/2", "a/1", "z/2", "z/1"]

    async def test_events_are_found_after_the_clock_was_set_back(self, store: Store) -> None:
        await stored_in_sessions(store, at(30, "s", 1), at(10, "s", 2), at(20, "s", 3))
        pages = await all_pages(store, OLDEST_FIRST, 1)
        assert pages == [["s/2"], ["s/3"], ["s/1"]]

    async def test_events_are_filtered_by_type(self, store: Store) -> None:
        types: tuple[EventType, ...] = get_args(EventType)
        await stored_in_sessions(
            store, *(at(seq, "s", seq, type) for seq, type in enumerate(types, start=1))
        )

        async def types_of(*wanted: EventType) -> set[str]:
            page = await store.find_events(EventFilter(types=wanted))
            return {each.type for each in page.events}

        assert await types_of("handoff") == {"handoff"}
        assert await types_of("message", "inbox") == {"message", "inbox"}
        assert await types_of(*AUDITED) == AUDITED
        assert await types_of() == set()
        assert len(await found(store, EventFilter())) == len(types)

    async def test_events_are_filtered_by_time(self, store: Store) -> None:
        await stored_in_sessions(store, *(at(10 * seq, "s", seq) for seq in range(1, 6)))

        async def between(since_us: int | None, until_us: int | None) -> list[str]:
            where = EventFilter(
                types=AUDITED, since_us=since_us, until_us=until_us, newest_first=False
            )
            return await found(store, where)

        assert await between(20, 40) == ["s/2", "s/3"]
        assert await between(41, None) == ["s/5"]
        assert await between(None, 20) == ["s/1"]
        assert await between(30, 30) == []

    async def test_events_of_one_session_can_be_searched(self, store: Store) -> None:
        await stored_in_sessions(store, at(1, "a", 1), at(2, "b", 1), at(3, "a", 2, "message"))
        assert await found(store, EventFilter(session_id="a")) == ["a/2", "a/1"]
        assert await found(store, EventFilter(session_id="a", types=AUDITED)) == ["a/1"]
        assert await found(store, EventFilter(session_id="nobody")) == []

    @pytest.mark.parametrize("newest_first", [True, False])
    @pytest.mark.parametrize("types", [None, AUDITED, ("handoff",)])
    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    async def test_all_pages_together_contain_each_event_once(
        self, store: Store, newest_first: bool, types: tuple[EventType, ...] | None, limit: int
    ) -> None:
        events = [at(seq // 2, name, seq) for name in ("b", "a", "c") for seq in range(1, 4)]
        await stored_in_sessions(store, *events)
        where = EventFilter(types=types, newest_first=newest_first)
        pages = await all_pages(store, where, limit)
        assert all(len(page) == limit for page in pages[:-1])
        assert 0 < len(pages[-1]) <= limit
        assert [each for page in pages for each in page] == await found(store, where)
        assert sorted(each for page in pages for each in page) == sorted(
            each.event_id for each in events
        )

    async def test_events_written_meanwhile_do_not_shift_the_pages(
        self, store: Store, other: Store
    ) -> None:
        await stored_in_sessions(store, *(at(10 * seq, "s", seq) for seq in range(1, 5)))
        newest = await store.find_events(EventFilter(types=AUDITED), limit=2)
        oldest = await store.find_events(OLDEST_FIRST, limit=2)
        await stored_in_sessions(other, at(5, "early", 1), at(99, "late", 1))
        rest = EventFilter(types=AUDITED)
        assert await found(store, rest, cursor=newest.next_cursor) == ["s/2", "s/1", "early/1"]
        assert await found(store, OLDEST_FIRST, cursor=oldest.next_cursor) == [
            "s/3",
            "s/4",
            "late/1",
        ]

    async def test_a_page_can_start_after_any_event(self, store: Store) -> None:
        await stored_in_sessions(
            store, *(at(7, name, seq) for name in ("b", "a") for seq in (1, 2))
        )
        for where in (OLDEST_FIRST, EventFilter(types=AUDITED)):
            page = await store.find_events(where)
            ids = [each.event_id for each in page.events]
            for number, cursor in enumerate(page.cursors, start=1):
                assert await found(store, where, cursor=cursor) == ids[number:]

    async def test_a_page_continues_after_its_last_session_was_deleted(self, store: Store) -> None:
        await stored_in_sessions(store, at(10, "a", 1), at(20, "b", 1), at(30, "c", 1))
        page = await store.find_events(OLDEST_FIRST, limit=2)
        await store.delete("b")
        assert await found(store, OLDEST_FIRST, cursor=page.next_cursor) == ["c/1"]
        assert await found(store, OLDEST_FIRST) == ["a/1", "c/1"]

    async def test_a_store_without_events_has_one_empty_page(self, store: Store) -> None:
        page = await store.find_events()
        assert (list(page.events), page.next_cursor) == ([], None)

    @pytest.mark.parametrize(
        "cursor",
        ["", "1", "1.2", "1.2.3.4", "a.b.c", "1.-2.3", " 1.2.3", "1.2.3\n", "١.٢.٣", "9" * 40],
    )
    async def test_an_invalid_cursor_of_found_events_is_refused(
        self, store: Store, cursor: str
    ) -> None:
        with pytest.raises(UserError, match="next_cursor"):
            await store.find_events(cursor=cursor)

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_limit_of_found_events_below_one_is_refused(
        self, store: Store, limit: int
    ) -> None:
        with pytest.raises(UserError, match="limit"):
            await store.find_events(limit=limit)


async def stored_free(store: Store, *times: int) -> None:
    """Store events without a session, with these times, one after the other."""
    for at_us in times:
        await store.write(Batch(events=[free_event(at_us)]))


@dataclass
class Follower:
    """A reader of the feed that remembers the cursor."""

    store: Store
    after: str | None = None
    seen: list[str] = field(default_factory=list)

    async def read(self, limit: int = 100) -> list[str]:
        """The new events."""
        page = await self.store.feed(after=self.after, limit=limit)
        assert len(page.cursors) == len(page.events)
        assert page.next_cursor == (page.cursors[-1] if page.events else self.after)
        self.after = page.next_cursor
        ids = [each.event_id for each in page.events]
        self.seen += ids
        return ids


class FreeEventContract(StoreContractBase):
    """Events without a session."""

    async def test_events_without_a_session_are_numbered_by_the_store(
        self, store: Store, other: Store
    ) -> None:
        await store.write(Batch(events=[free_event(5), free_event(6)]))
        await other.write(Batch(events=[free_event(4, seq=99)]))
        events = await store.events("")
        assert [(each.session_id, each.seq, each.at_us) for each in events] == [
            ("", 1, 5),
            ("", 2, 6),
            ("", 3, 4),
        ]
        assert [each.event_id for each in events] == ["/1", "/2", "/3"]

    async def test_events_without_a_session_have_all_fields(
        self, store: Store, other: Store
    ) -> None:
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

    async def test_events_without_a_session_are_read_in_pages(self, store: Store) -> None:
        await store.write(Batch(events=[free_event(n) for n in range(1, 6)]))
        assert [each.seq for each in await store.events("", after=2, limit=2)] == [3, 4]
        assert list(await store.events("", with_items=True)) == []

    async def test_a_new_store_has_no_events_without_a_session(self, store: Store) -> None:
        assert list(await store.events("")) == []

    async def test_events_without_a_session_are_found_among_session_events(
        self, store: Store
    ) -> None:
        await stored_in_sessions(store, at(10, "a", 1), at(30, "a", 2))
        await stored_free(store, 20, 30)
        assert await found(store, OLDEST_FIRST) == ["a/1", "/1", "/2", "a/2"]
        assert await found(store, EventFilter(types=AUDITED)) == ["a/2", "/2", "/1", "a/1"]
        assert await found(store, EventFilter(session_id="", newest_first=False)) == ["/1", "/2"]
        assert await found(store, EventFilter(types=["inbox"], since_us=30)) == ["/2"]
        assert await all_pages(store, OLDEST_FIRST, 1) == [["a/1"], ["/1"], ["/2"], ["a/2"]]

    async def test_events_without_a_session_create_no_session(self, store: Store) -> None:
        await stored_free(store, 1)
        assert list((await store.list()).sessions) == []
        info = await store.info()
        assert (info["sessions"], info["events"]) == (0, 1)

    async def test_concurrent_events_without_a_session_get_distinct_numbers(
        self, store: Store, other: Store
    ) -> None:
        await asyncio.gather(
            *(
                (store, other)[n % 2].write(Batch(events=[free_event(n), free_event(n)]))
                for n in range(10)
            )
        )
        assert [each.seq for each in await store.events("")] == list(range(1, 21))

    async def test_events_without_a_session_must_be_json(self, store: Store) -> None:
        if self.looks_into_events:
            with pytest.raises(UserError, match="`details`"):
                await store.write(Batch(events=[free_event(), free_event(details={"a": {1}})]))
            assert list(await store.events("")) == []


class FeedContract(StoreContractBase):
    """The feed contains each event once, in the order in which the events became visible."""

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

    async def test_a_follower_of_the_feed_sees_new_events(self, store: Store, other: Store) -> None:
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

    async def test_the_feed_can_be_followed_from_its_end(self, store: Store) -> None:
        for number in (1, 2):
            follower = Follower(store, after=await store.feed_end())
            assert await follower.read() == []
            await stored_free(store, 1)
            assert await follower.read() == [f"/{number}"]

    async def test_the_feed_can_be_followed_from_any_event(self, store: Store) -> None:
        await stored_in_sessions(store, at(7, "a", 1), at(7, "a", 2), at(7, "b", 1))
        page = await store.feed()
        ids = [each.event_id for each in page.events]
        assert page.cursors[-1] == page.next_cursor == await store.feed_end()
        for number, cursor in enumerate(page.cursors, start=1):
            assert await Follower(store, after=cursor).read() == ids[number:]

    async def test_a_follower_of_the_feed_survives_a_deleted_session(self, store: Store) -> None:
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

    async def test_a_follower_of_the_feed_survives_repeated_deletion_of_everything(
        self, store: Store
    ) -> None:
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

    async def test_a_follower_of_the_feed_misses_no_concurrent_events(
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
    async def test_an_invalid_cursor_of_the_feed_is_refused(
        self, store: Store, cursor: str
    ) -> None:
        with pytest.raises(UserError, match="feed"):
            await store.feed(after=cursor)

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_limit_of_the_feed_below_one_is_refused(self, store: Store, limit: int) -> None:
        with pytest.raises(UserError, match="limit"):
            await store.feed(limit=limit)
