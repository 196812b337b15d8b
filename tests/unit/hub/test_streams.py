"""Subscribers see every event once, in one order, wherever they begin."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.hub import EventHub, Subscription
from ekiden.storage.base import Store
from tests.unit.hub.conftest import happen, happen_in, ids, names, numbered, rest, take


async def test_a_subscription_without_an_id_starts_with_new_events(
    store: Store, hub: EventHub
) -> None:
    await happen(store, "before")
    async with hub.subscribe() as stream:
        await happen(store, "after")
        assert names(await take(stream, 1)) == ["after"]


async def test_a_subscription_with_an_empty_id_starts_with_the_first_event(
    store: Store, hub: EventHub
) -> None:
    await happen(store, *numbered(1, 3))
    assert names(await take(hub.subscribe(after=""), 3)) == numbered(1, 3)


async def test_an_empty_store_can_be_watched_from_its_beginning(
    store: Store, hub: EventHub
) -> None:
    waiting = asyncio.create_task(take(hub.subscribe(after=""), 1))
    await asyncio.sleep(0)
    await happen(store, "first")
    assert names(await waiting) == ["first"]


async def test_events_of_sessions_and_of_none_are_in_one_stream(
    store: Store, hub: EventHub
) -> None:
    async with hub.subscribe() as stream:
        await happen(store, "free")
        await happen_in(store, "s1", {"details": {"name": "said"}}, {"details": {"name": "done"}})
        found = await take(stream, 3)
    assert names(found) == ["free", "said", "done"]
    assert [each.event.session_id for each in found] == ["", "s1", "s1"]


@pytest.mark.parametrize("place", [0, 1, 149, 298])
async def test_a_subscription_can_resume_after_every_id(
    store: Store, hub: EventHub, place: int
) -> None:
    await happen_in(store, "s", *({"details": {"name": name}} for name in numbered(1, 299)))
    found = await take(hub.subscribe(after=""), 299)
    assert names(found) == numbered(1, 299)
    resumed = hub.subscribe(after=found[place].id, follow=False)
    assert names(await rest(resumed)) == numbered(place + 2, 299)


async def test_an_event_id_is_valid_in_another_hub(store: Store) -> None:
    async with EventHub(store) as first, first.subscribe() as stream:
        await happen(store, "e1", "e2")
        [last, _] = await take(stream, 2)
    await happen(store, "e3")
    async with EventHub(store) as second:
        assert names(await take(second.subscribe(after=last.id), 2)) == ["e2", "e3"]


async def test_a_subscriber_starting_at_an_old_id_catches_up(store: Store, hub: EventHub) -> None:
    await happen_in(store, "s", *({"details": {"name": name}} for name in numbered(1, 250)))
    async with hub.subscribe() as live, hub.subscribe(after="") as late:
        await happen(store, *numbered(251, 260))
        assert names(await take(live, 10)) == numbered(251, 260)
        assert names(await take(late, 260)) == numbered(1, 260)
        ahead = asyncio.create_task(take(live, 5))
        behind = asyncio.create_task(take(late, 5))
        await happen(store, *numbered(261, 265))
        assert ids(await ahead) == ids(await behind)
        assert live.position == late.position


async def test_a_subscriber_ahead_of_the_shared_reader_waits_for_it(
    store: Store, hub: EventHub
) -> None:
    async with hub.subscribe() as live:
        waiting = asyncio.create_task(take(live, 1))
        await happen(store, "e1")
        await waiting
        await happen(store, *numbered(2, 5))
        ahead = hub.subscribe(after="")
        assert names(await take(ahead, 5)) == numbered(1, 5)
        more = asyncio.create_task(take(ahead, 1))
        assert names(await take(live, 4)) == numbered(2, 5)
        await happen(store, "e6")
        assert names(await more) == names(await take(live, 1)) == ["e6"]


async def test_all_subscribers_share_one_reader(store: Store) -> None:
    counted = Counting(store)
    async with EventHub(counted) as hub:
        streams = [hub.subscribe() for _ in range(50)]
        readers = [asyncio.create_task(take(stream, 20)) for stream in streams]
        await asyncio.gather(*(stream.__aenter__() for stream in streams))
        for name in numbered(1, 20):
            await happen(store, name)
        assert [names(found) for found in await asyncio.gather(*readers)] == [numbered(1, 20)] * 50
        # None waits if the events come quicker than they are read.
        assert counted.most <= 1, "of all who are up to date, one reads"


async def test_a_slow_subscriber_blocks_no_other_and_misses_nothing(
    store: Store, hub: EventHub
) -> None:
    async with hub.subscribe() as slow, hub.subscribe() as quick:
        await happen(store, "e1")
        assert names(await take(slow, 1)) == names(await take(quick, 1)) == ["e1"]
        for first in range(2, 1202, 50):
            live = asyncio.create_task(take(quick, 50))
            await asyncio.sleep(0)
            events = ({"details": {"name": name}} for name in numbered(first, first + 49))
            await happen_in(store, f"s{first}", *events)
            assert names(await live) == numbered(first, first + 49)
        assert names(await take(slow, 1200)) == numbered(2, 1201)


async def test_the_shared_buffer_is_bounded(store: Store, hub: EventHub) -> None:
    async with hub.subscribe() as slow, hub.subscribe() as quick:
        for batch in range(30):
            live = asyncio.create_task(take(quick, 50))
            await asyncio.sleep(0)
            await happen_in(store, f"s{batch}", *({} for _ in range(50)))
            await live
        assert 100 <= _events_within(hub) <= 700
        assert len(await take(slow, 1500)) == 1500


async def test_a_cancelled_wait_loses_nothing(store: Store, hub: EventHub) -> None:
    async with hub.subscribe() as stream:
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await happen(store, "e1", "e2")
        assert names(await take(stream, 2)) == ["e1", "e2"]


async def test_a_deleted_session_removes_no_other_events(store: Store, hub: EventHub) -> None:
    await happen(store, "e1")
    await happen_in(store, "s", {"details": {"name": "gone"}})
    found = await take(hub.subscribe(after=""), 2)
    async with hub.subscribe() as live:
        await store.delete("s")
        await happen(store, "e3")
        assert names(await take(live, 1)) == ["e3"]
    assert names(await take(hub.subscribe(after=found[1].id), 1)) == ["e3"]
    assert names(await take(hub.subscribe(after=found[0].id), 1)) == ["e3"]


async def test_a_stream_without_follow_ends_at_the_current_end(store: Store, hub: EventHub) -> None:
    await happen(store, *numbered(1, 3))
    async with hub.subscribe(after="", follow=False) as stream:
        await happen(store, "e4")
        assert names(await rest(stream)) == numbered(1, 3)
        assert await rest(hub.subscribe(follow=False)) == []
    assert (
        await rest(hub.subscribe(after="", where=Subscription(sessions=["x"]), follow=False)) == []
    )


async def test_a_stream_without_follow_ends_although_its_last_event_was_deleted(
    store: Store, hub: EventHub
) -> None:
    await happen(store, "e1")
    await happen_in(store, "s", {})
    async with hub.subscribe(after="", follow=False) as stream:
        await store.delete("s")
        assert names(await rest(stream)) == ["e1"]


async def test_the_position_advances_over_filtered_events(store: Store, hub: EventHub) -> None:
    await happen(store, "e1")
    [only] = await take(hub.subscribe(after=""), 1)
    stream = hub.subscribe(after="", where=Subscription(sessions=["x"]), follow=False)
    assert stream.position == ""
    assert hub.subscribe().position is None
    assert await rest(stream) == []
    assert stream.position == only.id


@pytest.mark.parametrize(
    "after",
    ["nonsense", "-1", "1.5", "1 ", "٣", "1\x00", "\ud800", "9" * 150, "9" * 5000, "日本", "0x1"],
)
async def test_an_invalid_event_id_is_refused(store: Store, hub: EventHub, after: str) -> None:
    with pytest.raises(UserError, match="is not the id of an event"):
        await anext(hub.subscribe(after=after))
    with pytest.raises(UserError, match="is not the id of an event"):
        async with hub.subscribe(after=after):
            pass


async def test_an_event_id_that_is_not_text_is_refused(hub: EventHub) -> None:
    with pytest.raises(UserError, match="is not the id of an event"):
        hub.subscribe(after=7)


async def test_a_stream_that_two_tasks_start_at_once_starts_once(
    store: Store, hub: EventHub
) -> None:
    await happen(store, *numbered(1, 3))
    [first] = await take(hub.subscribe(after=""), 1)
    stream = hub.subscribe(after=first.id)
    reading = asyncio.create_task(take(stream, 3))
    await asyncio.gather(stream.__aenter__(), asyncio.sleep(0))
    await happen(store, "e4")
    assert names(await reading) == numbered(2, 4)


@pytest.mark.parametrize("turns", range(6))
async def test_a_stream_whose_start_was_cancelled_starts_again_without_repeating_events(
    hub: EventHub, store: Store, turns: int
) -> None:
    await happen(store, *numbered(1, 3))
    [first] = await take(hub.subscribe(after=""), 1)
    stream = hub.subscribe(after=first.id)
    starting = asyncio.create_task(stream.__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait((starting,))
    await happen(store, "e4")
    assert names(await take(stream, 3)) == numbered(2, 4)


async def test_two_tasks_cannot_read_one_stream(hub: EventHub) -> None:
    stream = hub.subscribe(after="")
    first = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    with pytest.raises(UserError, match="one task at a time"):
        await anext(stream)
    first.cancel()


def _events_within(hub: EventHub) -> int:
    """How many events the hub holds, however it holds them."""
    import gc

    seen: set[int] = set()
    stack: list[object] = [hub]
    found = 0
    while stack:
        each = stack.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen.add(id(each))
        if isinstance(each, Event):
            found += 1
        elif type(each).__module__.startswith("ekiden.storage"):
            continue
        else:
            stack.extend(gc.get_referents(each))
    return found


class Counting:
    """A store that counts how many read its end at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting = 0
        self.most = 0
        self.feed = store.feed
        self.feed_end = store.feed_end

    async def wait_for_change(self, timeout_s: float) -> None:
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        try:
            await self._store.wait_for_change(timeout_s)
        finally:
            self._waiting -= 1
