"""The contract of `QueueStore`: finding, settling and requeueing messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import MessageFilter, MessageSettle, MessageState, Store
from ekiden.testing.contracts.base import AWKWARD_TEXTS, LEASE_S, StoreContractBase
from ekiden.testing.contracts.queues import keys_of, message, settle, stored, take, take_one


class FindMessageContract(StoreContractBase):
    """Finding messages without taking them."""

    async def test_each_message_filter_restricts_the_result(
        self, store: Store, other: Store
    ) -> None:
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
    async def test_an_empty_filter_list_finds_no_messages(
        self, store: Store, where: MessageFilter
    ) -> None:
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

    async def test_finding_messages_does_not_take_them(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        await store.find_messages()
        assert (await take_one(store)).attempts == 1

    async def test_messages_are_found_by_many_keys(self, store: Store) -> None:
        await store.put_messages([message(n, key=f"k{n}") for n in range(300)])
        keys = {f"k{n}" for n in range(0, 3000, 2)}
        assert len(await store.find_messages(MessageFilter(keys=keys), limit=1000)) == 150

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_limit_of_found_messages_below_one_is_refused(
        self, store: Store, limit: int
    ) -> None:
        with pytest.raises(UserError, match="limit"):
            await store.find_messages(limit=limit)


ENDS: tuple[MessageState, ...] = ("answered", "failed", "timed_out", "cancelled", "expired", "dead")


class SettleContract(StoreContractBase):
    """Settling messages. Only the first settlement counts."""

    async def test_a_settled_message_leaves_the_queue_and_keeps_its_answer(
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
    async def test_a_queued_message_can_be_settled(self, store: Store, state: MessageState) -> None:
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
    async def test_an_invalid_end_state_is_refused(self, store: Store, state: Any) -> None:
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

    async def test_of_concurrent_settlements_one_counts(self, store: Store, other: Store) -> None:
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
    async def test_an_answer_to_an_abandoned_message_is_stored_as_late(
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

    async def test_an_abandoned_message_keeps_its_first_end_state(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        await settle(store, state="cancelled")
        assert await settle(store, state="timed_out") == "no"
        assert (await stored(store)).state == "cancelled"

    async def test_an_older_delivery_cannot_settle_a_message(
        self, store: Store, other: Store
    ) -> None:
        await store.put_messages([message(1, key="k")])
        first = await take_one(store)
        await self.expire_leases(store)
        again = await take_one(other, "t2")
        assert await settle(store, by=first) == "no"
        assert await settle(store, by=first, forget=True) == "no"
        assert await settle(store, by=replace(again, id=again.id + 1)) == "no"
        assert (await stored(store)).state == "open"
        assert await settle(store, by=again) == "settled"

    async def test_a_stale_settlement_does_not_affect_others_in_the_call(
        self, store: Store
    ) -> None:
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

    async def test_an_expired_delivery_settles_a_message_that_was_not_taken_again(
        self, store: Store
    ) -> None:
        await store.put_messages([message(1, key="k")])
        taken = await take_one(store)
        await self.expire_leases(store)
        assert await settle(store, by=taken) == "settled"

    async def test_a_released_delivery_cannot_settle_a_message(self, store: Store) -> None:
        await store.put_messages([message(1, key="k")])
        taken = await take_one(store)
        await store.release_message(taken)
        assert await settle(store, by=taken) == "no"

    async def test_a_settled_message_cannot_be_acknowledged_or_released(self, store: Store) -> None:
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
    """Sending messages again, and removing settled ones."""

    async def test_dead_and_expired_messages_can_be_requeued(
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

    async def test_a_requeued_message_is_queued_by_its_age(self, store: Store) -> None:
        await store.put_messages([message(n, key=f"k{n}") for n in range(3)])
        await settle(store, "k0", "dead")
        await store.requeue_messages(["k0"])
        taken = await store.take_messages(
            "q", owner="t", lease_s=LEASE_S, limit=9, oldest_first=True
        )
        assert [each.body for each in taken] == [0, 1, 2]

    async def test_a_requeued_message_has_no_waiter(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", waiter="w")])
        await settle(store, state="dead")
        await store.requeue_messages(["k"])
        assert await keys_of(store, MessageFilter(waiters=["w"])) == []
        assert await settle(store) == "settled"

    @pytest.mark.parametrize("state", ["answered", "failed", "timed_out", "cancelled"])
    async def test_messages_in_other_states_are_not_requeued(
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
