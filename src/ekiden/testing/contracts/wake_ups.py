"""The contract of wake-ups, which must not be lost, and of priorities."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import (
    Batch,
    Claim,
    Commit,
    MessageSettle,
    MessageState,
    SessionOpening,
    SessionPatch,
    SessionStatus,
    Store,
)
from ekiden.storage.records import HEAD_START_S
from ekiden.testing.contracts.base import (
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    new_session,
    step,
)
from ekiden.testing.contracts.queues import message, settle, take

WAITING = SessionPatch(status="waiting")


async def suspended(store: Store, session_id: str = "s") -> None:
    """A waiting session without a lease."""
    await store.commit(await claimed(store, session_id), step(patch=WAITING, release=True))


async def status_of(store: Store, session_id: str = "s") -> tuple[SessionStatus, int]:
    """The status of the session, and its number of wake-ups."""
    row = await store.get(session_id)
    return row.status, row.wakes


class WakeContract(StoreContractBase):
    """Waiting sessions, and their wake-ups."""

    async def test_a_waiting_session_becomes_ready_when_woken(
        self, store: Store, other: Store
    ) -> None:
        await suspended(store)
        assert await status_of(other) == ("waiting", 0)
        assert await other.claim_next(owner="w2", lease_s=LEASE_S) is None
        await other.write(Batch(wakes=["s"]))
        assert await status_of(store) == ("ready", 1)
        found = await store.claim_next(owner="w2", lease_s=LEASE_S)
        assert found is not None
        assert (found[1].id, found[1].wakes) == ("s", 1)

    @pytest.mark.parametrize("status", ["idle", "ready"])
    async def test_waking_a_session_that_does_not_wait_keeps_its_status(
        self, store: Store, status: SessionStatus
    ) -> None:
        await store.create(new_session("s", status=status))
        await store.write(Batch(wakes=["s", "s"]))
        assert await status_of(store) == (status, 2)

    async def test_waking_an_unknown_session_changes_nothing(self, store: Store) -> None:
        await suspended(store)
        await store.write(Batch(wakes=["nobody", ""]))
        assert await status_of(store) == ("waiting", 0)

    async def test_woken_sessions_are_queued_from_the_time_of_their_wake(
        self, store: Store
    ) -> None:
        for name in ("a", "b"):
            await suspended(store, name)
        await store.create(new_session("c", status="ready"))
        for name in ("b", "a"):
            await store.write(Batch(wakes=[name]))
        order = []
        while (found := await store.claim_next(owner="w", lease_s=LEASE_S)) is not None:
            order.append(found[1].id)
        assert order == ["c", "b", "a"]

    async def test_waking_a_claimed_session_leaves_its_lease_unchanged(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await other.write(Batch(wakes=["s"]))
        row = await store.get("s")
        assert (row.owner, row.epoch, row.wakes) == ("w1", claim.epoch, 1)
        await store.commit(claim, step(patch=SessionPatch(cursor={"at": 1})))

    async def test_a_session_with_an_unseen_wake_does_not_wait(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await other.write(Batch(wakes=["s"]))
        await store.commit(claim, step(patch=WAITING, seen_wakes=0, release=True))
        assert await status_of(store) == ("ready", 1)
        assert await other.claim_next(owner="w2", lease_s=LEASE_S) is not None

    async def test_a_session_that_has_seen_every_wake_waits(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await other.write(Batch(wakes=["s"]))
        await store.commit(claim, step(patch=WAITING, seen_wakes=1, release=True))
        assert await status_of(store) == ("waiting", 1)

    async def test_a_commit_without_seen_wakes_waits(self, store: Store) -> None:
        claim = await claimed(store)
        await store.write(Batch(wakes=["s"]))
        await store.commit(claim, step(patch=WAITING))
        assert await status_of(store) == ("waiting", 1)

    @pytest.mark.parametrize("status", [None, "idle", "ready"])
    async def test_seen_wakes_are_ignored_unless_the_session_waits(
        self, store: Store, status: SessionStatus | None
    ) -> None:
        claim = await claimed(store)
        await store.write(Batch(wakes=["s"]))
        await store.commit(claim, step(patch=SessionPatch(status=status), seen_wakes=0))
        assert await status_of(store) == (status or "idle", 1)

    @pytest.mark.parametrize("state", ["answered", "failed", "timed_out", "cancelled", "dead"])
    async def test_settling_a_message_wakes_its_session_once(
        self, store: Store, other: Store, state: MessageState
    ) -> None:
        await suspended(store)
        await suspended(store, "t")
        await store.put_messages([message(1, key="k", session_id="s")])
        await settle(other, state=state)
        assert await status_of(store) == ("ready", 1)
        assert await status_of(store, "t") == ("waiting", 0)
        await settle(other, state=state)
        await settle(other, state="answered")
        assert await status_of(store) == ("ready", 1)

    async def test_each_settled_message_wakes_its_session(self, store: Store) -> None:
        await suspended(store)
        await store.put_messages([message(n, key=f"k{n}", session_id="s") for n in range(3)])
        ends = [MessageSettle(key=f"k{n}", state="answered") for n in range(3)]
        await store.settle_messages(ends)
        assert await status_of(store) == ("ready", 3)

    async def test_an_expired_message_wakes_its_session(self, store: Store) -> None:
        await suspended(store)
        await store.put_messages([message(1, key="k", session_id="s", ttl_s=5)])
        await self.advance_clock(store, 6)
        assert await take(store) == []
        assert await status_of(store) == ("ready", 1)

    async def test_forgetting_a_message_wakes_no_session(self, store: Store) -> None:
        await suspended(store)
        await store.put_messages([message(1, key="k", session_id="s")])
        await settle(store, forget=True)
        assert await status_of(store) == ("waiting", 0)

    async def test_a_message_of_a_deleted_session_can_be_settled(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", session_id="gone")])
        assert await settle(store) == "settled"

    async def test_concurrent_wakes_are_all_counted(self, store: Store, other: Store) -> None:
        await suspended(store)
        await store.put_messages([message(n, key=f"k{n}", session_id="s") for n in range(10)])
        await asyncio.gather(
            *(settle((store, other)[n % 2], f"k{n}") for n in range(10)),
            *((store, other)[n % 2].write(Batch(wakes=["s"])) for n in range(10)),
        )
        assert await status_of(store) == ("ready", 20)

    async def test_a_concurrent_suspend_and_wake_never_loses_the_wake(
        self, store: Store, other: Store
    ) -> None:
        for number in range(20):
            name = f"s{number}"
            claim = await claimed(store, name)
            await store.put_messages([message(1, key=name, session_id=name)])
            suspend = store.commit(claim, step(patch=WAITING, seen_wakes=0, release=True))
            answer = settle(other, name)
            await asyncio.gather(*((suspend, answer) if number % 2 else (answer, suspend)))
            assert await status_of(store, name) == ("ready", 1)

    async def test_a_wake_ends_wait_for_change(self, store: Store, other: Store) -> None:
        await suspended(store)
        await store.wait_for_change(0)
        waiter = asyncio.ensure_future(store.wait_for_change(2 * LEASE_S))
        await asyncio.sleep(0)
        async with asyncio.timeout(LEASE_S):
            await other.write(Batch(wakes=["s"]))
            await waiter


LOW, NORMAL, HIGH, URGENT = HEAD_START_S
_READY: Any = {"status": "ready"}


class PriorityContract(StoreContractBase):
    """The order of ready sessions."""

    async def test_a_session_has_the_priority_it_was_created_with(
        self, store: Store, other: Store
    ) -> None:
        await store.create(new_session("a"))
        await store.create(new_session("b", priority=URGENT))
        _, made = await store.claim(
            "c", owner="w1", lease_s=LEASE_S, create=new_session("c", priority=LOW)
        )
        await store.write(Batch(openings=[SessionOpening(new=new_session("d", priority=HIGH))]))
        assert made.priority == LOW
        assert [(await other.get(name)).priority for name in "abcd"] == [NORMAL, URGENT, LOW, HIGH]
        assert [row.priority for row in (await other.list()).sessions] == [
            HIGH,
            LOW,
            URGENT,
            NORMAL,
        ]

    @pytest.mark.parametrize("priority", [0, 5, -1, "high", None, True])
    async def test_an_invalid_priority_is_refused(self, store: Store, priority: Any) -> None:
        new = new_session("s", priority=priority)
        with pytest.raises(UserError, match="priority"):
            await store.create(new)
        with pytest.raises(UserError, match="priority"):
            await store.claim("s", owner="w1", lease_s=LEASE_S, create=new)
        with pytest.raises(UserError, match="priority"):
            await store.write(Batch(openings=[SessionOpening(new=new)]))
        assert (await store.list()).sessions == []

    async def test_sessions_are_claimed_by_priority_then_in_order(self, store: Store) -> None:
        for name, priority in (
            ("low", LOW),
            ("normal 1", NORMAL),
            ("high 1", HIGH),
            ("urgent", URGENT),
            ("normal 2", NORMAL),
            ("high 2", HIGH),
        ):
            await store.create(new_session(name, priority=priority, **_READY))
        assert await self._claim_all(store) == [
            "urgent",
            "high 1",
            "high 2",
            "normal 1",
            "normal 2",
            "low",
        ]

    async def test_a_session_that_waited_for_the_head_start_is_not_overtaken(
        self, store: Store
    ) -> None:
        lead_s = HEAD_START_S[URGENT] - HEAD_START_S[LOW]
        await store.create(new_session("old and low", priority=LOW, **_READY))
        await self.let_wait(store, lead_s + 1)
        await store.create(new_session("not as old", **_READY))
        await self.let_wait(store, HEAD_START_S[HIGH] - HEAD_START_S[NORMAL] - 5)
        await store.create(new_session("high", priority=HIGH, **_READY))
        await store.create(new_session("new", **_READY))
        assert await self._claim_all(store) == ["old and low", "high", "not as old", "new"]

    async def test_claim_next_takes_the_first_session_of_the_named_agents(
        self, store: Store
    ) -> None:
        await store.create(new_session("theirs", agent="sales", priority=URGENT, **_READY))
        await store.create(new_session("mine", priority=LOW, **_READY))
        found = await store.claim_next(owner="w1", lease_s=LEASE_S, agents=["triage"])
        assert found is not None
        assert found[1].id == "mine"

    async def test_a_session_keeps_its_priority_when_it_is_ready_again(self, store: Store) -> None:
        kept = [
            await self._claimed_session(store, name, HIGH) for name in ("left", "done", "given up")
        ]
        await store.commit(kept[0], step(event(1, "left"), release=True))
        idle = SessionPatch(status="idle")
        await store.commit(kept[1], step(event(1, "done"), patch=idle, release=True))
        await store.create(new_session("normal", **_READY))
        again, _ = await store.claim("done", owner="w1", lease_s=LEASE_S)
        ready = SessionPatch(status="ready")
        await store.commit(again, step(event(2, "done"), patch=ready, release=True))
        await store.release(kept[2])
        assert (await self._claim_all(store))[-1] == "normal"

    async def test_a_woken_session_keeps_its_priority(self, store: Store) -> None:
        waiting = SessionPatch(status="waiting")
        for name, priority in (("low", LOW), ("high", HIGH)):
            claim = await self._claimed_session(store, name, priority)
            await store.commit(claim, step(event(1, name), patch=waiting, release=True))
        await store.create(new_session("normal", **_READY))
        await store.write(Batch(wakes=["low"]))
        other = await claimed(store, "other")
        await store.commit(other, Commit(patch=SessionPatch(), wakes=["high"], release=True))
        assert await self._claim_all(store) == ["high", "normal", "low"]

    async def test_an_expired_session_is_claimed_by_its_priority(self, store: Store) -> None:
        await self._claimed_session(store, "high", HIGH)
        await self.expire_leases(store)
        await store.create(new_session("normal", **_READY))
        assert await self._claim_all(store) == ["high", "normal"]

    async def test_expired_and_new_sessions_are_claimed_in_one_order(self, store: Store) -> None:
        for name, priority in (("low", LOW), ("urgent", URGENT), ("normal", NORMAL)):
            await self._claimed_session(store, name, priority)
        await self.expire_leases(store)
        await store.create(new_session("new and urgent", priority=URGENT, **_READY))
        await store.create(new_session("new and high", priority=HIGH, **_READY))
        await store.create(new_session("new and low", priority=LOW, **_READY))
        assert await self._claim_all(store) == [
            "urgent",
            "new and urgent",
            "new and high",
            "normal",
            "low",
            "new and low",
        ]

    async def _claimed_session(self, store: Store, name: str, priority: int) -> Claim:
        """Create a session, and claim it."""
        new = new_session(name, priority=priority, **_READY)
        claim, _ = await store.claim(name, owner="w1", lease_s=LEASE_S, create=new)
        return claim

    async def _claim_all(self, store: Store) -> list[str]:
        """Claim all ready sessions; returns them in order."""
        names = []
        while (found := await store.claim_next(owner="w1", lease_s=LEASE_S)) is not None:
            names.append(found[1].id)
        return names
