"""The contract of waking: no wake of a session that waits is lost."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.storage.base import (
    Batch,
    MessageSettle,
    MessageState,
    SessionPatch,
    SessionStatus,
    Store,
)
from ekiden.testing.contracts.base import LEASE_S, StoreContractBase, claimed, new_session, step
from ekiden.testing.contracts.messages import settle
from ekiden.testing.contracts.queues import message, take

WAITING = SessionPatch(status="waiting")


async def suspended(store: Store, session_id: str = "s") -> None:
    """A session that waits, with nobody's lease."""
    await store.commit(await claimed(store, session_id), step(patch=WAITING, release=True))


async def status_of(store: Store, session_id: str = "s") -> tuple[SessionStatus, int]:
    """Its status, and how often it was woken."""
    row = await store.get(session_id)
    return row.status, row.wakes


class WakeContract(StoreContractBase):
    """Sessions that wait, and whoever wakes them."""

    async def test_a_session_that_waits_becomes_ready_when_woken(
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
    async def test_another_session_is_woken_without_a_change_of_status(
        self, store: Store, status: SessionStatus
    ) -> None:
        await store.create(new_session("s", status=status))
        await store.write(Batch(wakes=["s", "s"]))
        assert await status_of(store) == (status, 2)

    async def test_waking_nobody_changes_nothing(self, store: Store) -> None:
        await suspended(store)
        await store.write(Batch(wakes=["nobody", ""]))
        assert await status_of(store) == ("waiting", 0)

    async def test_sessions_that_were_woken_stand_in_line_from_then_on(self, store: Store) -> None:
        for name in ("a", "b"):
            await suspended(store, name)
        await store.create(new_session("c", status="ready"))
        for name in ("b", "a"):
            await store.write(Batch(wakes=[name]))
        order = []
        while (found := await store.claim_next(owner="w", lease_s=LEASE_S)) is not None:
            order.append(found[1].id)
        assert order == ["c", "b", "a"]

    async def test_a_wake_while_somebody_works_needs_no_lease_and_takes_none(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await other.write(Batch(wakes=["s"]))
        row = await store.get("s")
        assert (row.owner, row.epoch, row.wakes) == ("w1", claim.epoch, 1)
        await store.commit(claim, step(patch=SessionPatch(cursor={"at": 1})))

    async def test_a_session_does_not_wait_for_a_wake_that_it_has_not_seen(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await other.write(Batch(wakes=["s"]))
        await store.commit(claim, step(patch=WAITING, seen_wakes=0, release=True))
        assert await status_of(store) == ("ready", 1)
        assert await other.claim_next(owner="w2", lease_s=LEASE_S) is not None

    async def test_a_session_waits_if_it_has_seen_every_wake(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await other.write(Batch(wakes=["s"]))
        await store.commit(claim, step(patch=WAITING, seen_wakes=1, release=True))
        assert await status_of(store) == ("waiting", 1)

    async def test_who_does_not_say_what_it_has_seen_waits(self, store: Store) -> None:
        claim = await claimed(store)
        await store.write(Batch(wakes=["s"]))
        await store.commit(claim, step(patch=WAITING))
        assert await status_of(store) == ("waiting", 1)

    @pytest.mark.parametrize("status", [None, "idle", "ready"])
    async def test_seen_wakes_mean_nothing_without_waiting(
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

    async def test_several_messages_of_one_session_wake_it_as_often(self, store: Store) -> None:
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

    async def test_forgetting_a_message_wakes_nobody(self, store: Store) -> None:
        await suspended(store)
        await store.put_messages([message(1, key="k", session_id="s")])
        await settle(store, forget=True)
        assert await status_of(store) == ("waiting", 0)

    async def test_a_message_of_a_session_that_is_gone_can_be_settled(self, store: Store) -> None:
        await store.put_messages([message(1, key="k", session_id="gone")])
        assert await settle(store) == "settled"

    async def test_many_wakes_at_once_are_all_counted(self, store: Store, other: Store) -> None:
        await suspended(store)
        await store.put_messages([message(n, key=f"k{n}", session_id="s") for n in range(10)])
        await asyncio.gather(
            *(settle((store, other)[n % 2], f"k{n}") for n in range(10)),
            *((store, other)[n % 2].write(Batch(wakes=["s"])) for n in range(10)),
        )
        assert await status_of(store) == ("ready", 20)

    async def test_suspending_and_waking_at_once_never_loses_the_wake(
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

    async def test_a_wake_is_a_change(self, store: Store, other: Store) -> None:
        await suspended(store)
        await store.wait_for_change(0)
        waiter = asyncio.ensure_future(store.wait_for_change(2 * LEASE_S))
        await asyncio.sleep(0)
        async with asyncio.timeout(LEASE_S):
            await other.write(Batch(wakes=["s"]))
            await waiter
