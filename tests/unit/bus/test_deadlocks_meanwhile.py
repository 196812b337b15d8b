"""Changes during a search for deadlocks do not lead to a wrong victim."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest
from hypothesis import given, settings

from ekiden.bus.deadlocks import break_deadlock, break_deadlocks, deadlocks, find_present
from ekiden.bus.wait_graph import Need, Wait
from ekiden.core.conversation.messages import VictimPolicy
from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import Batch, MessageFilter, MessageSettle, StoredMessage, Written
from ekiden.storage.memory import MemoryStore
from tests.unit.bus.asked import as_put, ask, open_waits, states
from tests.unit.bus.test_graph_oracle import needs, policies
from tests.unit.bus.wait_oracle import holds, stuck_nodes

Meddling: TypeAlias = Callable[[MemoryStore], Awaitable[object]]


class MeddledStore(MemoryStore):
    """Makes a change after a certain read, and before a certain write."""

    def __init__(self) -> None:
        super().__init__()
        self.after_look: dict[int, Meddling] = {}
        self.before_write: list[Meddling] = []
        self.hidden: dict[int, str] = {}
        """What a certain look does not see, because it was stored while that was under way."""
        self.looks = 0

    async def find_messages(
        self, where: MessageFilter = MessageFilter(), *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredMessage]:
        found = await super().find_messages(where, after=after, limit=limit)
        self.looks += 1
        if (meddle := self.after_look.pop(self.looks, None)) is not None:
            await meddle(self)
        return [row for row in found if row.key != self.hidden.get(self.looks)]

    async def write(self, batch: Batch) -> Written:
        if self.before_write:
            await self.before_write.pop(0)(self)
        return await super().write(batch)


@pytest.fixture
def store() -> MeddledStore:
    return MeddledStore()


def settle(name: str, state: str = "answered") -> Meddling:
    """An agent answers, or gives up."""

    async def meddle(store: MemoryStore) -> None:
        answer = MessageSettle(key=name, state=state, answer={"payload": 1})  # type: ignore[arg-type]
        assert await store.settle_messages([answer]) == ["settled"]

    return meddle


def both(*meddlings: Meddling) -> Meddling:
    """One after the other."""

    async def meddle(store: MemoryStore) -> None:
        for each in meddlings:
            await each(store)

    return meddle


def asks(*edges: str) -> Meddling:
    """An agent begins to wait."""
    return lambda store: ask(store, *edges)


async def test_a_wait_outside_a_cycle_needs_few_reads(store: MeddledStore) -> None:
    await ask(store, "a>b")
    assert await break_deadlock(store, "a") is None
    assert store.looks == 2
    assert await break_deadlock(store, "a", awaits={"b"}) is None
    assert store.looks == 3


async def test_a_cycle_that_never_existed_at_one_time_is_not_broken(store: MeddledStore) -> None:
    await ask(store, "a>b")
    store.after_look[1] = both(settle("a>b"), asks("b>a"))
    assert await break_deadlock(store, "a", policy="youngest") is None
    assert await open_waits(store) == ["b>a"]


async def test_a_cycle_closed_during_the_search_is_broken(store: MeddledStore) -> None:
    await ask(store, "a>b|c", "b>a")
    store.after_look[1] = asks("c>a")
    found = await break_deadlock(store, "a")
    assert found is not None
    assert set(found.given_up) == {"a>b", "a>c"}


async def test_a_group_that_shrinks_during_the_search_is_read_again(
    store: MeddledStore,
) -> None:
    await ask(store, "a>b|c", "b>a", "c>a")
    store.after_look[2] = settle("a>c", "failed")
    found = await break_deadlock(store, "a")
    assert found is not None
    assert found.given_up == ("a>b",)


async def test_a_group_answered_during_the_search_is_left_alone(store: MeddledStore) -> None:
    await ask(store, "a>b|c", "b>a", "c>a")
    store.after_look[2] = settle("a>c")
    assert await break_deadlock(store, "a") is None
    assert await open_waits(store) == ["a>b", "b>a", "c>a"]


async def test_a_group_read_in_part_is_read_again(
    store: MeddledStore,
) -> None:
    await ask(store, "a>b|c", "b>a")
    store.hidden[1] = "a>c"
    assert await break_deadlock(store, "a") is None
    assert await open_waits(store) == ["a>b", "a>c", "b>a"]


async def test_a_cycle_found_by_two_searches_is_broken_once(store: MeddledStore) -> None:
    await ask(store, "a>b", "b>c", "c>a")
    store.before_write = [lambda store: break_deadlock(store, "b", policy="youngest")]
    assert await break_deadlock(store, "a") is None
    assert [each.victim for each in await deadlocks(store)] == ["c"]
    assert await states(store) == {"a>b": "open", "b>c": "open", "c>a": "failed"}


async def test_a_second_search_breaks_the_remaining_deadlock(store: MeddledStore) -> None:
    await ask(store, "a>b", "b>a", "a>c", "c>a")
    store.before_write = [lambda store: break_deadlocks(store)]
    await break_deadlock(store, "a")
    assert await find_present(store) == []
    assert len(await deadlocks(store)) == 2


async def test_a_victim_that_timed_out_first_is_not_recorded_as_resolved(
    store: MeddledStore,
) -> None:
    await ask(store, "a>b", "b>a")
    store.before_write = [settle("a>b", "timed_out")]
    found = await break_deadlock(store, "b")
    assert found is not None
    assert (found.given_up, found.resolved) == ((), True)
    assert await deadlocks(store) == [found]
    # The error came late: the store keeps it, and no agent was woken by it.
    assert (await states(store))["b>a"] == "open"


async def test_a_store_failure_leaves_no_half_broken_deadlock(store: MeddledStore) -> None:
    async def fail(store: MemoryStore) -> None:
        raise StoreUnavailable("the disk is full")

    await ask(store, "a>b", "b>a")
    store.before_write = [fail]
    with pytest.raises(StoreUnavailable):
        await break_deadlock(store, "b")
    assert len(await open_waits(store)) == 2
    assert [each.resolved for each in await deadlocks(store)] == [False]
    assert await break_deadlock(store, "b") is not None


async def test_concurrent_searches_break_each_deadlock_once() -> None:
    store = MemoryStore()
    for number in range(10):
        await ask(store, f"a{number}>b{number}", f"b{number}>a{number}")
    names = [f"{letter}{number}" for number in range(10) for letter in "ab"]
    await asyncio.gather(*(break_deadlock(store, name) for name in names))
    assert sorted(each.victim or "" for each in await deadlocks(store)) == sorted(names[::2])


@settings(deadline=None)
@given(needs(), policies)
def test_in_a_store_no_agent_stays_deadlocked_or_fails_needlessly(
    coming: list[Need], policy: VictimPolicy
) -> None:
    asyncio.run(_wait_and_look(coming, policy))


async def _wait_and_look(coming: list[Need], policy: VictimPolicy) -> None:
    store = MemoryStore()
    present: dict[str, Wait] = {}
    told = 0
    for need in coming:
        await store.put_messages([as_put(wait) for wait in need])
        present.update({wait.id: wait for wait in need})
        await break_deadlock(store, need[0].waiter, policy=policy)
        past = await deadlocks(store, limit=1000)
        for deadlock in sorted(past, key=lambda each: each.id, reverse=True)[told:]:
            stuck = stuck_nodes(list(present.values()))
            given_up = [present.pop(name) for name in deadlock.given_up]
            assert given_up[0].waiter in stuck
            assert holds(given_up, stuck)
        told = len(past)
        assert stuck_nodes(list(present.values())) == set()
        assert sorted(await open_waits(store)) == sorted(present)
