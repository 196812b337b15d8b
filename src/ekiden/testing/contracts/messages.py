"""The contract of `QueueStore` for messages with a name: settled once, found in any state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import QueueFull, UserError
from ekiden.storage.base import (
    MessageFilter,
    MessageSettle,
    MessageState,
    PutReceipt,
    QueueMessage,
    Settled,
    Store,
    StoredMessage,
)
from ekiden.testing.contracts.base import LEASE_S, StoreContractBase
from ekiden.testing.contracts.queues import message, take, take_one


async def stored(store: Store, key: str = "k") -> StoredMessage:
    """The message with this key, which must be there."""
    (only,) = await store.find_messages(MessageFilter(keys=[key]))
    return only


async def settle(
    store: Store, key: str = "k", state: MessageState = "answered", answer: Any = None, **more: Any
) -> Settled:
    """What came of settling one message."""
    end = MessageSettle(key=key, state=state, answer=answer, **more)
    (result,) = await store.settle_messages([end])
    return result


async def keys_of(store: Store, where: MessageFilter, **page: Any) -> list[str | None]:
    """The keys of the messages that are found."""
    return [each.key for each in await store.find_messages(where, **page)]


class KeyContract(StoreContractBase):
    """Messages with a name, and messages that are stored as taken."""

    async def test_each_message_has_a_receipt_with_its_id(self, store: Store) -> None:
        receipts = await store.put_messages([message(1), message(2, key="k")])
        assert [each.is_new for each in receipts] == [True, True]
        taken = await take(store, limit=2)
        assert [each.id for each in taken] == [each.id for each in receipts]
        assert [each.key for each in taken] == [None, "k"]
        assert await store.put_messages([]) == []

    async def test_a_second_message_with_the_name_is_dropped_in_any_queue(
        self, store: Store, other: Store
    ) -> None:
        (first,) = await store.put_messages([message(1, key="k")])
        dropped = [PutReceipt(id=first.id, is_new=False)]
        assert await other.put_messages([message(2, key="k", queue="p")]) == dropped
        assert await store.put_messages([message(3, key="k", taken_by="t")]) == dropped
        assert (await store.queue_depth("q"), await store.queue_depth("p")) == (1, 0)
        assert (await take_one(store)).body == 1

    async def test_a_name_is_taken_within_one_call_too(self, store: Store) -> None:
        first, second = await store.put_messages([message(1, key="k"), message(2, key="k")])
        assert (first.is_new, second) == (True, PutReceipt(id=first.id, is_new=False))
        assert (await stored(store)).body == 1

    async def test_a_name_is_held_as_long_as_the_message_is_stored(self, store: Store) -> None:
        (first,) = await store.put_messages([message(1, key="k")])
        await settle(store)
        (second,) = await store.put_messages([message(2, key="k")])
        assert second == PutReceipt(id=first.id, is_new=False)
        await settle(store, forget=True)
        (third,) = await store.put_messages([message(3, key="k")])
        assert third.is_new
        assert third.id > first.id

    async def test_a_dropped_duplicate_of_a_dedup_key_has_no_id(self, store: Store) -> None:
        await store.put_messages([message(1, dedup_key="d")])
        receipts = await store.put_messages([message(2, dedup_key="d"), message(3)])
        assert receipts[0] == PutReceipt(id=0, is_new=False)
        assert receipts[1].is_new

    async def test_a_dedup_key_is_free_again_when_its_message_is_settled(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1, key="k", dedup_key="d")])
        await settle(store)
        (receipt,) = await store.put_messages([message(2, dedup_key="d")])
        assert receipt.is_new

    async def test_a_message_with_a_known_name_needs_no_room(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        (receipt,) = await store.put_messages([message(1, key="k", bound=1)])
        assert not receipt.is_new

    async def test_only_open_messages_count_for_the_bound(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", bound=1)])
        with pytest.raises(QueueFull):
            await store.put_messages([message(2, bound=1)])
        await settle(store)
        assert await store.queue_depth("q") == 0
        await store.put_messages([message(2, bound=1)])

    async def test_a_message_can_be_stored_as_taken(self, store: Store, other: Store) -> None:
        put = message(1, key="k", priority=2, taken_by="t1", lease_s=LEASE_S)
        (receipt,) = await store.put_messages([put])
        assert await take(other, "t2") == []
        first = QueueMessage(
            id=receipt.id, queue="q", body=1, priority=2, attempts=1, owner="t1", key="k"
        )
        row = await stored(other)
        assert (row.owner, row.attempts, row.state) == ("t1", 1, "open")
        assert await settle(store, by=first) == "settled"

    async def test_a_message_stored_as_taken_comes_back_when_the_lease_is_over(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1, taken_by="t1", lease_s=LEASE_S)])
        await self.expire_leases(store)
        again = await take_one(store, "t2")
        assert (again.body, again.attempts, again.owner) == (1, 2, "t2")

    async def test_many_with_one_name_at_once_are_one(self, store: Store, other: Store) -> None:
        results = await asyncio.gather(
            *((store, other)[n % 2].put_messages([message(n, key="k")]) for n in range(10))
        )
        receipts = [receipt for (receipt,) in results]
        assert sum(receipt.is_new for receipt in receipts) == 1
        assert len({receipt.id for receipt in receipts}) == 1
        assert await store.queue_depth("q") == 1

    async def test_the_oldest_can_be_taken_whatever_its_priority(self, store: Store) -> None:
        await store.put_messages([message(n, priority=n) for n in range(4)])
        taken = await store.take_messages(
            "q", owner="t", lease_s=LEASE_S, limit=2, oldest_first=True
        )
        assert [each.body for each in taken] == [0, 1]
        assert [each.body for each in await take(store, limit=9)] == [3, 2]

    @pytest.mark.parametrize("oldest_first", [False, True])
    async def test_nothing_is_taken_if_nothing_is_asked_for(
        self, store: Store, oldest_first: bool
    ) -> None:
        await store.put_messages([message(1)])
        for limit in (0, -1):
            assert not await store.take_messages(
                "q", owner="t", lease_s=LEASE_S, limit=limit, oldest_first=oldest_first
            )
        assert (await take_one(store)).attempts == 1


class ExpiryContract(StoreContractBase):
    """Messages whose time is over."""

    async def test_a_message_is_not_taken_after_its_time(self, store: Store, other: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=60, priority=9), message(2)])
        await self.advance_clock(store, 61)
        assert [each.body for each in await take(other, limit=9)] == [2]
        row = await stored(store)
        assert (row.state, row.attempts, row.answer) == ("expired", 0, None)
        assert row.settled_at_us is not None
        assert await store.queue_depth("q") == 1
        assert await settle(store) == "no"

    async def test_a_message_is_taken_in_its_time(self, store: Store) -> None:
        await store.put_messages([message(1, ttl_s=60)])
        await self.advance_clock(store, 59)
        assert (await take_one(store)).body == 1

    async def test_expired_messages_do_not_fill_a_page(self, store: Store) -> None:
        puts = [message(n, key=f"k{n}", ttl_s=60 if n < 5 else None) for n in range(8)]
        await store.put_messages(puts)
        await self.advance_clock(store, 61)
        assert [each.body for each in await take(store, limit=2)] == [5, 6]
        assert await keys_of(store, MessageFilter(states=["expired"])) == [
            f"k{n}" for n in range(5)
        ]

    async def test_the_oldest_that_is_not_expired_is_taken(self, store: Store) -> None:
        await store.put_messages([message(1, ttl_s=60), message(2), message(3, priority=1)])
        await self.advance_clock(store, 61)
        (taken,) = await store.take_messages("q", owner="t", lease_s=LEASE_S, oldest_first=True)
        assert taken.body == 2

    async def test_a_message_with_somebody_does_not_expire(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=5)])
        taken = await take_one(store)
        await self.advance_clock(store, 6)
        assert await take(store, "t2") == []
        assert await settle(store, by=taken) == "settled"

    async def test_a_message_that_is_given_back_after_its_time_expires(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=5)])
        taken = await take_one(store)
        await self.advance_clock(store, 6)
        assert await keys_of(store, MessageFilter(states=["open"])) == ["k"]
        assert await store.release_message(taken)
        assert (await stored(store)).state == "expired"

    async def test_a_message_is_not_delivered_again_after_its_time(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=5)])
        await take_one(store)
        await self.expire_leases(store)
        assert await take(store, "t2") == []
        row = await stored(store)
        assert (row.state, row.attempts, row.owner) == ("expired", 1, "t1")


class FindMessageContract(StoreContractBase):
    """Looking at messages without taking them."""

    async def test_every_filter_restricts(self, store: Store, other: Store) -> None:
        await store.put_messages(
            [
                message(0, key="a", waiter="w1", session_id="s1"),
                message(1, key="b", waiter="w2", session_id="s1", queue="p"),
                message(2, key="c", waiter="w1"),
                message(3, key="d"),
                message(4),
            ]
        )
        await settle(store, "c", "failed")
        everything = ["a", "b", "c", "d", None]
        for where, keys in (
            (MessageFilter(), everything),
            (MessageFilter(keys=["d", "a", "nobody"]), ["a", "d"]),
            (MessageFilter(queue="p"), ["b"]),
            (MessageFilter(queue="nowhere"), []),
            (MessageFilter(queues=["p", "nowhere"]), ["b"]),
            (MessageFilter(queues=["q", "p"], states=["open"]), ["a", "b", "d", None]),
            (MessageFilter(states=["open"]), ["a", "b", "d", None]),
            (MessageFilter(states={"failed", "answered"}), ["c"]),
            (MessageFilter(waiters=["w1"]), ["a", "c"]),
            (MessageFilter(waiters=["w1", "w2", "w3"], states=["open"]), ["a", "b"]),
            (MessageFilter(waited_for=True), ["a", "b", "c"]),
            (MessageFilter(waited_for=True, states=["open"]), ["a", "b"]),
            (MessageFilter(waited_for=True, states=["open"], queue="q"), ["a"]),
            (MessageFilter(session_id="s1"), ["a", "b"]),
            (MessageFilter(session_id="s1", queue="q"), ["a"]),
            (MessageFilter(keys=["a", "b", "c"], waiters=["w1"], states=["open"]), ["a"]),
        ):
            assert await keys_of(other, where) == keys, where

    @pytest.mark.parametrize(
        "where",
        [
            MessageFilter(keys=[]),
            MessageFilter(queues=[]),
            MessageFilter(states=[]),
            MessageFilter(waiters=[]),
            MessageFilter(waiters=[], states=["open"]),
        ],
    )
    async def test_an_empty_choice_finds_nothing(self, store: Store, where: MessageFilter) -> None:
        await store.put_messages([message(1, key="k", waiter="w")])
        assert await keys_of(store, where) == []

    async def test_messages_come_in_pages_by_id(self, store: Store) -> None:
        await store.put_messages([message(n, key=f"k{n}", priority=-n) for n in range(5)])
        page = await store.find_messages(limit=2)
        assert [each.key for each in page] == ["k0", "k1"]
        assert await keys_of(store, MessageFilter(), after=page[-1].id, limit=9) == [
            "k2",
            "k3",
            "k4",
        ]

    async def test_looking_takes_nothing(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        await store.find_messages()
        assert (await take_one(store)).attempts == 1

    async def test_many_keys_can_be_asked_for_at_once(self, store: Store) -> None:
        await store.put_messages([message(n, key=f"k{n}") for n in range(300)])
        keys = {f"k{n}" for n in range(0, 3000, 2)}
        assert len(await store.find_messages(MessageFilter(keys=keys), limit=1000)) == 150

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_page_of_no_messages_is_the_callers_error(
        self, store: Store, limit: int
    ) -> None:
        with pytest.raises(UserError, match="limit"):
            await store.find_messages(limit=limit)
