"""The contract of `QueueStore`: storing, delivering, keys and expiry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import QueueFull
from ekiden.storage.base import (
    MessageFilter,
    MessageSettle,
    MessageState,
    PutReceipt,
    QueueMessage,
    QueuePut,
    Settled,
    Store,
    StoredMessage,
)
from ekiden.testing.contracts.base import AWKWARD_TEXTS, LEASE_S, StoreContractBase


def message(body: Any, queue: str = "q", **options: Any) -> QueuePut:
    """A message to queue `q`."""
    return QueuePut(queue=queue, body=body, **options)


async def take(store: Store, owner: str = "t1", limit: int = 1) -> list[QueueMessage]:
    """The next messages of queue `q`."""
    return list(await store.take_messages("q", owner=owner, lease_s=LEASE_S, limit=limit))


async def take_one(store: Store, owner: str = "t1") -> QueueMessage:
    """The next message of queue `q`, which must have one."""
    (only,) = await take(store, owner)
    return only


async def stored(store: Store, key: str = "k") -> StoredMessage:
    """The stored message with this key."""
    (only,) = await store.find_messages(MessageFilter(keys=[key]))
    return only


async def settle(
    store: Store, key: str = "k", state: MessageState = "answered", answer: Any = None, **more: Any
) -> Settled:
    """Settle one message, and return the result."""
    end = MessageSettle(key=key, state=state, answer=answer, **more)
    (result,) = await store.settle_messages([end])
    return result


async def keys_of(store: Store, where: MessageFilter, **page: Any) -> list[str | None]:
    """The keys of the messages that the filter finds."""
    return [each.key for each in await store.find_messages(where, **page)]


class PutContract(StoreContractBase):
    """Storing messages."""

    async def test_a_message_is_read_back_unchanged(self, store: Store, other: Store) -> None:
        body = {"texts": list(AWKWARD_TEXTS), "n": [1, None, {"x": 1.5}]}
        await store.put_messages([message(body, priority=3)])
        taken = await take_one(other)
        assert (taken.queue, taken.body, taken.priority) == ("q", body, 3)
        assert (taken.attempts, taken.owner) == (1, "t1")

    @pytest.mark.parametrize("body", [None, 0, "", [], {}])
    async def test_a_message_body_may_be_any_json(self, store: Store, body: Any) -> None:
        await store.put_messages([message(body)])
        assert (await take_one(store)).body == body

    async def test_an_empty_queue_returns_no_messages(self, store: Store) -> None:
        assert await take(store) == []
        assert await store.queue_depth("q") == 0

    async def test_first_in_is_first_out(self, store: Store, other: Store) -> None:
        await store.put_messages([message(1), message(2)])
        await other.put_messages([message(3)])
        assert [(await take_one(store)).body for _ in range(3)] == [1, 2, 3]

    async def test_a_higher_priority_goes_first(self, store: Store) -> None:
        puts = [message(n, priority=p) for n, p in enumerate((0, 5, -1, 5, 0))]
        await store.put_messages(puts)
        assert [each.body for each in await take(store, limit=10)] == [1, 3, 0, 4, 2]

    async def test_queues_are_separate(self, store: Store) -> None:
        await store.put_messages([message(1), message(2, queue="p")])
        assert [each.body for each in await take(store, limit=10)] == [1]
        assert await store.queue_depth("p") == 1

    async def test_a_delayed_message_is_taken_after_its_delay(self, store: Store) -> None:
        await store.put_messages([message("late", delay_s=60, priority=9), message("now")])
        assert [each.body for each in await take(store, limit=10)] == ["now"]
        assert await store.queue_depth("q") == 2
        await self.advance_clock(store, 61)
        bodies = [each.body for each in await take(store, limit=10)]
        assert bodies[0] == "late"

    async def test_a_second_message_with_the_same_key_is_dropped(
        self, store: Store, other: Store
    ) -> None:
        await store.put_messages([message(1, dedup_key="k"), message(2, dedup_key="k")])
        await other.put_messages([message(3, dedup_key="k"), message(4, dedup_key="l")])
        await other.put_messages([message(5, queue="p", dedup_key="k")])
        assert await store.queue_depth("p") == 1
        assert [each.body for each in await take(store, limit=10)] == [1, 4]

    async def test_a_dedup_key_is_held_until_the_acknowledgement(self, store: Store) -> None:
        await store.put_messages([message(1, dedup_key="k")])
        taken = await take_one(store)
        await store.put_messages([message(2, dedup_key="k")])
        assert await store.queue_depth("q") == 1
        await store.ack_message(taken)
        await store.put_messages([message(3, dedup_key="k")])
        assert (await take_one(store)).body == 3

    async def test_messages_without_a_dedup_key_are_all_kept(self, store: Store) -> None:
        await store.put_messages([message(1), message(1), message(1)])
        assert await store.queue_depth("q") == 3

    async def test_a_full_queue_refuses_messages(self, store: Store) -> None:
        await store.put_messages([message(1, bound=2), message(2, bound=2)])
        with pytest.raises(QueueFull):
            await store.put_messages([message(3, bound=2)])
        assert await store.queue_depth("q") == 2
        await store.put_messages([message(3, bound=3)])

    async def test_taken_messages_count_towards_the_bound(self, store: Store) -> None:
        await store.put_messages([message(1)])
        taken = await take_one(store)
        with pytest.raises(QueueFull):
            await store.put_messages([message(2, bound=1)])
        await store.ack_message(taken)
        await store.put_messages([message(2, bound=1)])

    async def test_a_dropped_duplicate_does_not_count_towards_the_bound(self, store: Store) -> None:
        await store.put_messages([message(1, dedup_key="k")])
        await store.put_messages([message(2, dedup_key="k", bound=1)])
        assert await store.queue_depth("q") == 1

    async def test_put_messages_is_atomic(self, store: Store) -> None:
        with pytest.raises(QueueFull):
            await store.put_messages(
                [message(1), message(0, queue="p"), message(2), message(3, bound=2)]
            )
        assert await store.queue_depth("q") == 0
        assert await store.queue_depth("p") == 0

    async def test_the_bound_holds_for_concurrent_puts(self, store: Store, other: Store) -> None:
        results = await asyncio.gather(
            *((store, other)[n % 2].put_messages([message(n, bound=3)]) for n in range(9)),
            return_exceptions=True,
        )
        assert sum(isinstance(result, list) for result in results) == 3
        assert sum(isinstance(result, QueueFull) for result in results) == 6
        assert await store.queue_depth("q") == 3


class TakeContract(StoreContractBase):
    """Delivering messages."""

    async def test_a_taken_message_is_not_taken_by_another_owner(
        self, store: Store, other: Store
    ) -> None:
        await store.put_messages([message(1)])
        await take_one(store)
        assert await take(other, "t2") == []
        assert await take(store, "t1") == []

    async def test_at_most_the_limit_of_messages_is_taken(self, store: Store) -> None:
        await store.put_messages([message(n) for n in range(5)])
        assert [each.body for each in await take(store, limit=3)] == [0, 1, 2]
        assert [each.body for each in await take(store, limit=3)] == [3, 4]

    async def test_an_acknowledged_message_is_gone(self, store: Store) -> None:
        await store.put_messages([message(1)])
        taken = await take_one(store)
        assert await store.ack_message(taken) is True
        assert await store.ack_message(taken) is False
        assert await store.queue_depth("q") == 0
        await self.expire_leases(store)
        assert await take(store) == []

    async def test_a_message_with_an_expired_lease_is_delivered_again(
        self, store: Store, other: Store
    ) -> None:
        await store.put_messages([message(1)])
        first = await take_one(store)
        await self.expire_leases(store)
        again = await take_one(other, "t2")
        assert (again.id, again.body, again.attempts, again.owner) == (first.id, 1, 2, "t2")
        assert await store.ack_message(first) is False
        assert await store.release_message(first) is False
        assert await store.queue_depth("q") == 1
        assert await other.ack_message(again) is True

    async def test_an_older_delivery_to_the_same_owner_is_stale(self, store: Store) -> None:
        await store.put_messages([message(1)])
        first = await take_one(store)
        await self.expire_leases(store)
        again = await take_one(store)
        assert await store.ack_message(first) is False
        assert await store.ack_message(again) is True

    async def test_a_late_acknowledgement_counts_if_the_message_was_not_taken_again(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1)])
        taken = await take_one(store)
        await self.expire_leases(store)
        assert await store.ack_message(taken) is True

    async def test_a_stale_acknowledgement_does_not_affect_a_newer_message(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1)])
        first = await take_one(store)
        assert await store.ack_message(first) is True
        await store.put_messages([message(2)])
        second = await take_one(store)
        assert second.id != first.id
        assert await store.ack_message(first) is False
        assert await store.queue_depth("q") == 1

    async def test_a_released_message_keeps_its_place(self, store: Store, other: Store) -> None:
        await store.put_messages([message(1), message(2)])
        taken = await take_one(store)
        assert await store.release_message(taken) is True
        again = await take_one(other, "t2")
        assert (again.body, again.attempts) == (1, 2)
        assert await store.ack_message(taken) is False
        assert await store.release_message(taken) is False

    async def test_a_message_can_be_released_with_a_delay(self, store: Store) -> None:
        await store.put_messages([message(1)])
        taken = await take_one(store)
        assert await store.release_message(taken, delay_s=60) is True
        assert await take(store) == []
        await self.advance_clock(store, 61)
        assert (await take_one(store)).attempts == 2

    async def test_a_released_message_cannot_be_acknowledged(self, store: Store) -> None:
        await store.put_messages([message(1)])
        taken = await take_one(store)
        await store.release_message(taken)
        assert await store.ack_message(taken) is False
        assert await store.queue_depth("q") == 1

    async def test_concurrent_takers_never_get_the_same_message(
        self, store: Store, other: Store
    ) -> None:
        await store.put_messages([message(n) for n in range(40)])
        bodies: list[int] = []
        while True:
            rounds = await asyncio.gather(
                *(take((store, other)[n % 2], f"t{n}", limit=3) for n in range(6))
            )
            got = [each.body for taken in rounds for each in taken]
            if not got:
                break
            bodies += got
        assert sorted(bodies) == list(range(40))


class KeyContract(StoreContractBase):
    """Messages with a key, and messages that are stored as already taken."""

    async def test_each_message_has_a_receipt_with_its_id(self, store: Store) -> None:
        receipts = await store.put_messages([message(1), message(2, key="k")])
        assert [each.is_new for each in receipts] == [True, True]
        taken = await take(store, limit=2)
        assert [each.id for each in taken] == [each.id for each in receipts]
        assert [each.key for each in taken] == [None, "k"]
        assert await store.put_messages([]) == []

    async def test_a_second_message_with_the_same_key_is_dropped_in_any_queue(
        self, store: Store, other: Store
    ) -> None:
        (first,) = await store.put_messages([message(1, key="k")])
        dropped = [PutReceipt(id=first.id, is_new=False)]
        assert await other.put_messages([message(2, key="k", queue="p")]) == dropped
        assert await store.put_messages([message(3, key="k", taken_by="t")]) == dropped
        assert (await store.queue_depth("q"), await store.queue_depth("p")) == (1, 0)
        assert (await take_one(store)).body == 1

    async def test_a_message_key_is_unique_within_one_call(self, store: Store) -> None:
        first, second = await store.put_messages([message(1, key="k"), message(2, key="k")])
        assert (first.is_new, second) == (True, PutReceipt(id=first.id, is_new=False))
        assert (await stored(store)).body == 1

    async def test_a_message_key_is_held_as_long_as_the_message_is_stored(
        self, store: Store
    ) -> None:
        (first,) = await store.put_messages([message(1, key="k")])
        await settle(store)
        (second,) = await store.put_messages([message(2, key="k")])
        assert second == PutReceipt(id=first.id, is_new=False)
        await settle(store, forget=True)
        (third,) = await store.put_messages([message(3, key="k")])
        assert third.is_new
        assert third.id > first.id

    async def test_a_message_dropped_by_its_dedup_key_has_no_id(self, store: Store) -> None:
        await store.put_messages([message(1, dedup_key="d")])
        receipts = await store.put_messages([message(2, dedup_key="d"), message(3)])
        assert receipts[0] == PutReceipt(id=0, is_new=False)
        assert receipts[1].is_new

    async def test_settling_a_message_frees_its_dedup_key(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", dedup_key="d")])
        await settle(store)
        (receipt,) = await store.put_messages([message(2, dedup_key="d")])
        assert receipt.is_new

    async def test_a_message_with_a_known_key_does_not_count_towards_the_bound(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1, key="k")])
        (receipt,) = await store.put_messages([message(1, key="k", bound=1)])
        assert not receipt.is_new

    async def test_only_open_messages_count_towards_the_bound(self, store: Store) -> None:
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

    async def test_a_message_stored_as_taken_is_redelivered_after_its_lease(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1, taken_by="t1", lease_s=LEASE_S)])
        await self.expire_leases(store)
        again = await take_one(store, "t2")
        assert (again.body, again.attempts, again.owner) == (1, 2, "t2")

    async def test_concurrent_messages_with_one_key_are_stored_once(
        self, store: Store, other: Store
    ) -> None:
        results = await asyncio.gather(
            *((store, other)[n % 2].put_messages([message(n, key="k")]) for n in range(10))
        )
        receipts = [receipt for (receipt,) in results]
        assert sum(receipt.is_new for receipt in receipts) == 1
        assert len({receipt.id for receipt in receipts}) == 1
        assert await store.queue_depth("q") == 1

    async def test_the_oldest_message_can_be_taken_regardless_of_priority(
        self, store: Store
    ) -> None:
        await store.put_messages([message(n, priority=n) for n in range(4)])
        taken = await store.take_messages(
            "q", owner="t", lease_s=LEASE_S, limit=2, oldest_first=True
        )
        assert [each.body for each in taken] == [0, 1]
        assert [each.body for each in await take(store, limit=9)] == [3, 2]

    @pytest.mark.parametrize("oldest_first", [False, True])
    async def test_taking_with_a_limit_of_zero_returns_no_messages(
        self, store: Store, oldest_first: bool
    ) -> None:
        await store.put_messages([message(1)])
        for limit in (0, -1):
            assert not await store.take_messages(
                "q", owner="t", lease_s=LEASE_S, limit=limit, oldest_first=oldest_first
            )
        assert (await take_one(store)).attempts == 1


class ExpiryContract(StoreContractBase):
    """Messages with a time to live."""

    async def test_an_expired_message_is_not_taken(self, store: Store, other: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=60, priority=9), message(2)])
        await self.advance_clock(store, 61)
        assert [each.body for each in await take(other, limit=9)] == [2]
        row = await stored(store)
        assert (row.state, row.attempts, row.answer) == ("expired", 0, None)
        assert row.settled_at_us is not None
        assert await store.queue_depth("q") == 1
        assert await settle(store) == "no"

    async def test_expired_messages_do_not_count_in_the_depth(self, store: Store) -> None:
        await store.put_messages([message(1, ttl_s=60), message(2)])
        await self.advance_clock(store, 61)
        assert await store.queue_depth("q") == 1

    async def test_a_message_is_taken_before_its_ttl_ends(self, store: Store) -> None:
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

    async def test_the_oldest_unexpired_message_is_taken(self, store: Store) -> None:
        await store.put_messages([message(1, ttl_s=60), message(2), message(3, priority=1)])
        await self.advance_clock(store, 61)
        (taken,) = await store.take_messages("q", owner="t", lease_s=LEASE_S, oldest_first=True)
        assert taken.body == 2

    async def test_a_taken_message_does_not_expire(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=5)])
        taken = await take_one(store)
        await self.advance_clock(store, 6)
        assert await take(store, "t2") == []
        assert await settle(store, by=taken) == "settled"

    async def test_a_message_released_after_its_ttl_expires(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=5)])
        taken = await take_one(store)
        await self.advance_clock(store, 6)
        assert await keys_of(store, MessageFilter(states=["open"])) == ["k"]
        assert await store.release_message(taken)
        assert (await stored(store)).state == "expired"

    async def test_a_message_is_not_redelivered_after_its_ttl(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", ttl_s=5)])
        await take_one(store)
        await self.expire_leases(store)
        assert await take(store, "t2") == []
        row = await stored(store)
        assert (row.state, row.attempts, row.owner) == ("expired", 1, "t1")
