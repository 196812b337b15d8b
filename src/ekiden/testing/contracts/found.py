"""The contract of `Journal.find_events`: one stream over all sessions, in pages."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from ekiden.core.errors import UserError
from ekiden.core.events import AUDITED, Event, EventType
from ekiden.storage.base import EventFilter, Store
from ekiden.testing.contracts.base import (
    AWKWARD_TEXTS,
    StoreContractBase,
    claimed,
    fields_of,
    step,
)

OLDEST_FIRST = EventFilter(newest_first=False)


def at(at_us: int, session_id: str, seq: int, type: EventType = "handoff", **fields: Any) -> Event:
    """An event with a time of its own."""
    return Event(session_id=session_id, seq=seq, type=type, at_us=at_us, **fields)


async def stored_in_sessions(store: Store, *events: Event) -> None:
    """Store the events, each in its session, in the order in which the sessions come first."""
    for session_id in dict.fromkeys(each.session_id for each in events):
        claim = await claimed(store, session_id)
        own = [each for each in events if each.session_id == session_id]
        await store.commit(claim, step(*own, release=True))


async def found(store: Store, where: EventFilter = OLDEST_FIRST, **page: Any) -> list[str]:
    """The ids of the events of one page."""
    return [each.event_id for each in (await store.find_events(where, **page)).events]


async def all_pages(store: Store, where: EventFilter, limit: int) -> list[list[str]]:
    """The ids of the events of every page."""
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
        await stored_in_sessions(store, at(10, "a", 1), at(30, "a", 2), at(20, "b", 1), at(40, "b", 2))
        assert await found(store, EventFilter()) == ["b/2", "a/2", "b/1", "a/1"]
        assert await found(store, OLDEST_FIRST) == ["a/1", "b/1", "a/2", "b/2"]

    async def test_found_events_are_whole(self, store: Store, other: Store) -> None:
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

    async def test_events_of_one_time_are_ordered_by_session_and_number(self, store: Store) -> None:
        await stored_in_sessions(store, at(7, "z", 1), at(7, "z", 2), at(7, "a", 1), at(7, "a", 2))
        assert await found(store, OLDEST_FIRST) == ["z/1", "z/2", "a/1", "a/2"]
        assert await found(store, EventFilter()) == ["a/2", "a/1", "z/2", "z/1"]

    async def test_a_clock_that_was_set_back_does_not_lose_events(self, store: Store) -> None:
        await stored_in_sessions(store, at(30, "s", 1), at(10, "s", 2), at(20, "s", 3))
        pages = await all_pages(store, OLDEST_FIRST, 1)
        assert pages == [["s/2"], ["s/3"], ["s/1"]]

    async def test_only_the_types_asked_for_are_found(self, store: Store) -> None:
        types: tuple[EventType, ...] = get_args(EventType)
        await stored_in_sessions(store, *(at(seq, "s", seq, type) for seq, type in enumerate(types, start=1)))

        async def types_of(*wanted: EventType) -> set[str]:
            page = await store.find_events(EventFilter(types=wanted))
            return {each.type for each in page.events}

        assert await types_of("handoff") == {"handoff"}
        assert await types_of("message", "inbox") == {"message", "inbox"}
        assert await types_of(*AUDITED) == AUDITED
        assert await types_of() == set()
        assert len(await found(store, EventFilter())) == len(types)

    async def test_times_restrict_from_and_up_to(self, store: Store) -> None:
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

    async def test_one_session_can_be_searched(self, store: Store) -> None:
        await stored_in_sessions(store, at(1, "a", 1), at(2, "b", 1), at(3, "a", 2, "message"))
        assert await found(store, EventFilter(session_id="a")) == ["a/2", "a/1"]
        assert await found(store, EventFilter(session_id="a", types=AUDITED)) == ["a/1"]
        assert await found(store, EventFilter(session_id="nobody")) == []

    @pytest.mark.parametrize("newest_first", [True, False])
    @pytest.mark.parametrize("types", [None, AUDITED, ("handoff",)])
    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    async def test_pages_together_are_all_events_once(
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

    async def test_what_is_written_meanwhile_does_not_move_the_pages(
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

    async def test_a_page_can_begin_after_any_event(self, store: Store) -> None:
        await stored_in_sessions(store, *(at(7, name, seq) for name in ("b", "a") for seq in (1, 2)))
        for where in (OLDEST_FIRST, EventFilter(types=AUDITED)):
            page = await store.find_events(where)
            ids = [each.event_id for each in page.events]
            for number, cursor in enumerate(page.cursors, start=1):
                assert await found(store, where, cursor=cursor) == ids[number:]

    async def test_a_page_goes_on_though_its_last_session_was_deleted(self, store: Store) -> None:
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
    async def test_a_malformed_cursor_of_found_events_is_the_callers_error(
        self, store: Store, cursor: str
    ) -> None:
        with pytest.raises(UserError, match="next_cursor"):
            await store.find_events(cursor=cursor)

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_page_of_no_found_events_is_the_callers_error(
        self, store: Store, limit: int
    ) -> None:
        with pytest.raises(UserError, match="limit"):
            await store.find_events(limit=limit)
