"""The contract of `QueueStore` for messages with a name: found in any state, ended once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
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
from ekiden.testing.contracts.base import AWKWARD_TEXTS, LEASE_S, StoreContractBase
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


ENDS: tuple[MessageState, ...] = (
    "answered",
    "failed",
    "timed_out",
    "cancelled",
    "expired",
    "dead",
)


class SettleContract(StoreContractBase):
    """Bringing messages to their end."""

    async def test_a_settled_message_is_out_of_line_and_keeps_its_answer(
        self, store: Store, other: Store
    ) -> None:
        before = await store.now_us()
        await store.put_messages([message({"ask": 1}, key="k", waiter="w", priority=1)])
        taken = await take_one(store)
        row = await stored(other)
        assert (row.state, row.answer, row.settled_at_us) == ("open", None, None)
        answer = {"texts": list(AWKWARD_TEXTS), "n": [1, None, {"x": 1.5}]}
        assert await settle(other, answer=answer, by=taken) == "settled"
        row = await stored(store)
        assert (row.id, row.queue, row.key, row.body) == (taken.id, "q", "k", {"ask": 1})
        assert (row.priority, row.attempts, row.owner) == (1, 1, "t1")
        assert (row.state, row.waiter, row.session_id) == ("answered", "w", None)
        assert row.answer == answer
        assert row.settled_at_us is not None
        assert before <= row.created_at_us <= row.settled_at_us <= await other.now_us()
        await self.expire_leases(store)
        assert await take(store) == []
        assert await store.queue_depth("q") == 0

    @pytest.mark.parametrize("state", ENDS)
    async def test_a_message_in_line_can_be_settled(
        self, store: Store, state: MessageState
    ) -> None:
        await store.put_messages([message(1, key="k"), message(2, key="l")])
        assert await settle(store, "k", state) == "settled"
        assert (await stored(store)).state == state
        assert [each.body for each in await take(store, limit=9)] == [2]

    @pytest.mark.parametrize("answer", [None, 0, "", [], {}, False])
    async def test_an_answer_may_be_any_json(self, store: Store, answer: Any) -> None:
        await store.put_messages([message(1, key="k")])
        await settle(store, answer=answer)
        assert (await stored(store)).answer == answer

    async def test_an_answer_that_is_not_json_settles_nothing(self, store: Store) -> None:
        await store.put_messages([message(1, key="k"), message(2, key="l")])
        ends = [
            MessageSettle(key="k", state="answered", answer=1),
            MessageSettle(key="l", state="answered", answer={"deep": [0, float("nan")]}),
        ]
        with pytest.raises(UserError, match="the answer to message 'l'"):
            await store.settle_messages(ends)
        assert await store.queue_depth("q") == 2

    @pytest.mark.parametrize("state", ["open", "late", "gone"])
    async def test_what_is_no_end_is_the_callers_error(self, store: Store, state: Any) -> None:
        await store.put_messages([message(1, key="k")])
        with pytest.raises(UserError, match=f"'k' cannot be settled as '{state}'"):
            await settle(store, state=state)
        assert (await stored(store)).state == "open"

    @pytest.mark.parametrize("first", ["answered", "failed", "expired", "dead"])
    async def test_the_first_settlement_counts(self, store: Store, first: MessageState) -> None:
        await store.put_messages([message(1, key="k")])
        assert await settle(store, state=first, answer="first") == "settled"
        settled = await stored(store)
        for second in ENDS:
            assert await settle(store, state=second, answer="second") == "no"
        assert await stored(store) == settled

    async def test_of_many_settlements_at_once_one_counts(self, store: Store, other: Store) -> None:
        await store.put_messages([message(1, key="k")])
        results = await asyncio.gather(
            *(settle((store, other)[n % 2], state="failed", answer=n) for n in range(10))
        )
        assert sorted(results) == ["no"] * 9 + ["settled"]
        assert (await stored(store)).answer == results.index("settled")

    async def test_of_two_settlements_in_one_call_the_first_counts(self, store: Store) -> None:
        await store.put_messages([message(1, key="k"), message(2, key="l")])
        ends = [
            MessageSettle(key="k", state="timed_out"),
            MessageSettle(key="l", state="failed", answer="first"),
            MessageSettle(key="nobody", state="failed"),
            MessageSettle(key="l", state="answered", answer="second"),
            MessageSettle(key="k", state="answered", answer="late"),
        ]
        results = await store.settle_messages(ends)
        assert list(results) == ["settled", "settled", "no", "no", "late"]
        assert (await stored(store, "k")).answer == "late"
        assert (await stored(store, "l")).answer == "first"
        assert list(await store.settle_messages([])) == []

    @pytest.mark.parametrize("given_up", ["timed_out", "cancelled"])
    @pytest.mark.parametrize("late", ["answered", "failed"])
    async def test_an_answer_to_a_message_that_was_given_up_is_late(
        self, store: Store, given_up: MessageState, late: MessageState
    ) -> None:
        await store.put_messages([message(1, key="k")])
        taken = await take_one(store)
        await settle(store, state=given_up)
        before = await stored(store)
        assert await settle(store, state=late, answer=["too", "late"], by=taken) == "late"
        row = await stored(store)
        assert (row.state, row.answer) == ("late", ["too", "late"])
        assert (row.settled_at_us or 0) >= (before.settled_at_us or 0)
        assert await settle(store, state=late, answer="again") == "no"
        assert await stored(store) == row

    async def test_a_message_that_was_given_up_is_not_given_up_again(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        await settle(store, state="cancelled")
        assert await settle(store, state="timed_out") == "no"
        assert (await stored(store)).state == "cancelled"

    async def test_an_older_delivery_cannot_settle(self, store: Store, other: Store) -> None:
        await store.put_messages([message(1, key="k")])
        first = await take_one(store)
        await self.expire_leases(store)
        again = await take_one(other, "t2")
        assert await settle(store, by=first) == "no"
        assert await settle(store, by=first, forget=True) == "no"
        assert await settle(store, by=replace(again, id=again.id + 1)) == "no"
        assert (await stored(store)).state == "open"
        assert await settle(store, by=again) == "settled"

    async def test_a_settlement_that_does_not_count_is_in_nobodys_way(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        first = await take_one(store)
        await self.expire_leases(store)
        await take_one(store)
        ends = [
            MessageSettle(key="k", state="answered", answer="stale", by=first),
            MessageSettle(key="k", state="cancelled"),
            MessageSettle(key="k", state="answered", by=first),
            MessageSettle(key="k", state="answered", forget=True, by=first),
            MessageSettle(key="k", state="answered", answer="late"),
        ]
        results = await store.settle_messages(ends)
        assert list(results) == ["no", "settled", "no", "no", "late"]
        assert (await stored(store)).answer == "late"

    async def test_a_delivery_settles_after_its_lease_if_nobody_else_got_it(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1, key="k")])
        taken = await take_one(store)
        await self.expire_leases(store)
        assert await settle(store, by=taken) == "settled"

    async def test_a_released_delivery_cannot_settle(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        taken = await take_one(store)
        await store.release_message(taken)
        assert await settle(store, by=taken) == "no"

    async def test_a_settled_message_can_neither_be_acknowledged_nor_released(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1, key="k")])
        taken = await take_one(store)
        await settle(store, answer="kept")
        assert await store.ack_message(taken) is False
        assert await store.release_message(taken) is False
        assert (await stored(store)).answer == "kept"

    @pytest.mark.parametrize("state", [None, *ENDS])
    async def test_a_message_in_any_state_can_be_forgotten(
        self, store: Store, state: MessageState | None
    ) -> None:
        await store.put_messages([message(1, key="k", waiter="w"), message(2, key="l")])
        if state is not None:
            await settle(store, state=state)
        assert await settle(store, state="open", forget=True) == "settled"
        assert await settle(store, forget=True) == "no"
        assert await keys_of(store, MessageFilter()) == ["l"]
        assert [each.body for each in await take(store, limit=9)] == [2]

    async def test_an_acknowledged_message_is_not_found(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", waiter="w")])
        await store.ack_message(await take_one(store))
        assert await keys_of(store, MessageFilter()) == []
        assert await settle(store) == "no"


class RequeueContract(StoreContractBase):
    """Messages that were given up, and messages that are no longer needed."""

    async def test_dead_and_expired_messages_can_be_sent_again(
        self, store: Store, other: Store
    ) -> None:
        await store.put_messages([message(n, key=f"k{n}", ttl_s=60) for n in range(3)])
        await take_one(store)
        await settle(store, "k0", "dead", answer="why")
        await self.advance_clock(store, 61)
        assert await take(store) == []
        assert await other.requeue_messages(["k0", "k2", "nobody"]) == 2
        row = await stored(store, "k0")
        assert (row.state, row.attempts, row.owner) == ("open", 0, None)
        assert (row.answer, row.settled_at_us) == (None, None)
        assert await store.queue_depth("q") == 2
        await self.advance_clock(store, 100)
        assert [(each.body, each.attempts) for each in await take(store, limit=9)] == [
            (0, 1),
            (2, 1),
        ]

    async def test_a_message_that_is_sent_again_has_its_place_by_age(self, store: Store) -> None:
        await store.put_messages([message(n, key=f"k{n}") for n in range(3)])
        await settle(store, "k0", "dead")
        await store.requeue_messages(["k0"])
        taken = await store.take_messages(
            "q", owner="t", lease_s=LEASE_S, limit=9, oldest_first=True
        )
        assert [each.body for each in taken] == [0, 1, 2]

    async def test_nobody_waits_for_a_message_that_is_sent_again(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", waiter="w")])
        await settle(store, state="dead")
        await store.requeue_messages(["k"])
        assert await keys_of(store, MessageFilter(waiters=["w"])) == []
        assert await settle(store) == "settled"

    @pytest.mark.parametrize("state", ["answered", "failed", "timed_out", "cancelled"])
    async def test_other_messages_are_not_sent_again(
        self, store: Store, state: MessageState
    ) -> None:
        await store.put_messages([message(1, key="k"), message(2, key="open")])
        taken = await take(store, limit=2)
        await settle(store, state=state)
        assert await store.requeue_messages(["k", "open"]) == 0
        assert await store.requeue_messages([]) == 0
        assert (await stored(store)).state == state
        assert await store.ack_message(taken[1]) is True

    async def test_messages_settled_long_ago_are_removed(self, store: Store, other: Store) -> None:
        await store.put_messages([message(n, key=f"k{n}", dedup_key=f"{n}") for n in range(6)])
        states: tuple[MessageState, ...] = ("answered", "dead", "timed_out")
        for number, state in enumerate(states):
            await settle(store, f"k{number}", state)
        first = await stored(store, "k0")
        assert await store.prune_messages(before_us=first.settled_at_us or 0) == 0
        later = await store.now_us() + 1_000_000
        assert await other.prune_messages(before_us=later, limit=0) == 0
        assert await other.prune_messages(before_us=later, limit=2) == 2
        assert await other.prune_messages(before_us=later) == 1
        assert await other.prune_messages(before_us=later) == 0
        assert await keys_of(store, MessageFilter()) == ["k3", "k4", "k5"]
        (again,) = await store.put_messages([message(7, key="k0", dedup_key="0")])
        assert again.is_new
