"""The contract of priorities: who is taken first of those that are ready."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import Batch, Claim, Commit, SessionOpening, SessionPatch, Store
from ekiden.storage.records import HEAD_START_S
from ekiden.testing.contracts.base import (
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    new_session,
    step,
)

LOW, NORMAL, HIGH, URGENT = HEAD_START_S
_READY: Any = {"status": "ready"}


class PriorityContract(StoreContractBase):
    """The line of sessions that are ready."""

    async def test_a_session_has_the_priority_it_was_made_with(
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
    async def test_what_is_no_priority_is_refused(self, store: Store, priority: Any) -> None:
        new = new_session("s", priority=priority)
        with pytest.raises(UserError, match="priority"):
            await store.create(new)
        with pytest.raises(UserError, match="priority"):
            await store.claim("s", owner="w1", lease_s=LEASE_S, create=new)
        with pytest.raises(UserError, match="priority"):
            await store.write(Batch(openings=[SessionOpening(new=new)]))
        assert (await store.list()).sessions == []

    async def test_the_more_important_ones_come_first_and_equals_in_their_order(
        self, store: Store
    ) -> None:
        for name, priority in (
            ("low", LOW),
            ("normal 1", NORMAL),
            ("high 1", HIGH),
            ("urgent", URGENT),
            ("normal 2", NORMAL),
            ("high 2", HIGH),
        ):
            await store.create(new_session(name, priority=priority, **_READY))
        assert await self._taken(store) == [
            "urgent",
            "high 1",
            "high 2",
            "normal 1",
            "normal 2",
            "low",
        ]

    async def test_who_waited_for_the_difference_is_not_overtaken_any_more(
        self, store: Store
    ) -> None:
        lead_s = HEAD_START_S[URGENT] - HEAD_START_S[LOW]
        await store.create(new_session("old and low", priority=LOW, **_READY))
        await self.let_wait(store, lead_s + 1)
        await store.create(new_session("not as old", **_READY))
        await self.let_wait(store, HEAD_START_S[HIGH] - HEAD_START_S[NORMAL] - 5)
        await store.create(new_session("high", priority=HIGH, **_READY))
        await store.create(new_session("new", **_READY))
        assert await self._taken(store) == ["old and low", "high", "not as old", "new"]

    async def test_the_first_of_the_wanted_agents_is_taken(self, store: Store) -> None:
        await store.create(new_session("theirs", agent="sales", priority=URGENT, **_READY))
        await store.create(new_session("mine", priority=LOW, **_READY))
        found = await store.claim_next(owner="w1", lease_s=LEASE_S, agents=["triage"])
        assert found is not None
        assert found[1].id == "mine"

    async def test_a_session_keeps_its_priority_when_it_is_ready_again(self, store: Store) -> None:
        kept = [await self._worked_on(store, name, HIGH) for name in ("left", "done", "given up")]
        await store.commit(kept[0], step(event(1, "left"), release=True))
        idle = SessionPatch(status="idle")
        await store.commit(kept[1], step(event(1, "done"), patch=idle, release=True))
        await store.create(new_session("normal", **_READY))
        again, _ = await store.claim("done", owner="w1", lease_s=LEASE_S)
        ready = SessionPatch(status="ready")
        await store.commit(again, step(event(2, "done"), patch=ready, release=True))
        await store.release(kept[2])
        assert (await self._taken(store))[-1] == "normal"

    async def test_a_session_that_is_woken_keeps_its_priority(self, store: Store) -> None:
        waiting = SessionPatch(status="waiting")
        for name, priority in (("low", LOW), ("high", HIGH)):
            claim = await self._worked_on(store, name, priority)
            await store.commit(claim, step(event(1, name), patch=waiting, release=True))
        await store.create(new_session("normal", **_READY))
        await store.write(Batch(wakes=["low"]))
        other = await claimed(store, "other")
        await store.commit(other, Commit(patch=SessionPatch(), wakes=["high"], release=True))
        assert await self._taken(store) == ["high", "normal", "low"]

    async def test_whose_owner_died_is_taken_in_its_turn(self, store: Store) -> None:
        await self._worked_on(store, "high", HIGH)
        await self.expire_leases(store)
        await store.create(new_session("normal", **_READY))
        assert await self._taken(store) == ["high", "normal"]

    async def test_those_whose_owners_died_and_those_nobody_had_are_in_one_line(
        self, store: Store
    ) -> None:
        for name, priority in (("low", LOW), ("urgent", URGENT), ("normal", NORMAL)):
            await self._worked_on(store, name, priority)
        await self.expire_leases(store)
        await store.create(new_session("new and urgent", priority=URGENT, **_READY))
        await store.create(new_session("new and high", priority=HIGH, **_READY))
        await store.create(new_session("new and low", priority=LOW, **_READY))
        assert await self._taken(store) == [
            "urgent",
            "new and urgent",
            "new and high",
            "normal",
            "low",
            "new and low",
        ]

    async def _worked_on(self, store: Store, name: str, priority: int) -> Claim:
        """A session that somebody has."""
        new = new_session(name, priority=priority, **_READY)
        claim, _ = await store.claim(name, owner="w1", lease_s=LEASE_S, create=new)
        return claim

    async def _taken(self, store: Store) -> list[str]:
        """All that can be taken, in the order in which it is."""
        names = []
        while (found := await store.claim_next(owner="w1", lease_s=LEASE_S)) is not None:
            names.append(found[1].id)
        return names
