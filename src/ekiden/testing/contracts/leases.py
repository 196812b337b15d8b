"""The contract of `LeaseStore`."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.core.errors import LeaseLost, SessionBusy, SessionNotFound
from ekiden.storage.base import Claim, SessionPatch, SessionRow, Store
from ekiden.testing.contracts.base import (
    LEASE_S,
    StoreContractBase,
    claimed,
    event,
    new_session,
    step,
)


class ClaimContract(StoreContractBase):
    """Claiming one session."""

    async def test_a_claim_raises_the_epoch_and_names_the_owner(
        self, store: Store, other: Store
    ) -> None:
        await store.create(new_session("s", user_id="ada"))
        claim, row = await store.claim("s", owner="w1", lease_s=LEASE_S)
        assert (claim.session_id, claim.owner, claim.lease_s) == ("s", "w1", LEASE_S)
        assert claim.epoch == row.epoch == 1
        assert (row.owner, row.user_id) == ("w1", "ada")
        assert await other.get("s") == row

    async def test_a_session_that_does_not_exist_cannot_be_claimed(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.claim("s", owner="w1", lease_s=LEASE_S)

    async def test_claim_creates_a_missing_session_on_request(self, store: Store) -> None:
        new = new_session("s", status="ready", user_id="ada", meta={"title": "t"})
        claim, row = await store.claim("s", owner="w1", lease_s=LEASE_S, create=new)
        assert (row.agent, row.status, row.user_id, row.meta) == (
            "triage",
            "ready",
            "ada",
            {"title": "t"},
        )
        assert (row.seq, row.epoch, row.owner) == (0, claim.epoch, "w1")
        assert await store.get("s") == row

    async def test_claim_leaves_an_existing_session_unchanged(self, store: Store) -> None:
        await store.create(new_session("s", user_id="first"))
        _, row = await store.claim(
            "s", owner="w1", lease_s=LEASE_S, create=new_session("s", user_id="second")
        )
        assert row.user_id == "first"

    async def test_a_session_is_busy_while_its_lease_is_valid(
        self, store: Store, other: Store
    ) -> None:
        await claimed(store)
        with pytest.raises(SessionBusy) as caught:
            await other.claim("s", owner="w2", lease_s=LEASE_S, create=new_session("s"))
        assert caught.value.owner == "w1"
        assert 0 < caught.value.free_in_s <= LEASE_S
        assert (await store.get("s")).epoch == 1

    async def test_a_claimed_session_is_busy_for_the_same_owner(self, store: Store) -> None:
        await claimed(store)
        with pytest.raises(SessionBusy):
            await store.claim("s", owner="w1", lease_s=LEASE_S)

    async def test_a_session_with_an_expired_lease_can_be_claimed(
        self, store: Store, other: Store
    ) -> None:
        first = await claimed(store)
        await self.expire_leases(store)
        assert (await other.get("s")).owner is None
        second, row = await other.claim("s", owner="w2", lease_s=LEASE_S)
        assert second.epoch == first.epoch + 1
        assert row.owner == "w2"

    async def test_a_session_with_a_valid_lease_cannot_be_claimed(self, store: Store) -> None:
        await claimed(store)
        await self.advance_clock(store, LEASE_S - 5)
        with pytest.raises(SessionBusy):
            await store.claim("s", owner="w2", lease_s=LEASE_S)

    async def test_of_concurrent_claims_of_one_session_one_succeeds(
        self, store: Store, other: Store
    ) -> None:
        results = await asyncio.gather(
            *(
                (store, other)[n % 2].claim(
                    "s", owner=f"w{n}", lease_s=LEASE_S, create=new_session("s")
                )
                for n in range(10)
            ),
            return_exceptions=True,
        )
        winners = [result for result in results if isinstance(result, tuple)]
        assert len(winners) == 1
        assert sum(isinstance(result, SessionBusy) for result in results) == 9
        assert (await store.get("s")).owner == winners[0][0].owner


class ReleaseContract(StoreContractBase):
    """Renewing and releasing a claim."""

    async def test_a_released_session_can_be_claimed(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        await store.release(claim)
        row = await other.get("s")
        assert (row.owner, row.epoch) == (None, claim.epoch)
        again, _ = await other.claim("s", owner="w1", lease_s=LEASE_S)
        assert again.epoch == claim.epoch + 1

    async def test_a_released_claim_writes_nothing(self, store: Store) -> None:
        claim = await claimed(store)
        await store.release(claim)
        with pytest.raises(LeaseLost):
            await store.commit(claim, step(event(1)))

    async def test_releasing_twice_does_nothing(self, store: Store) -> None:
        claim = await claimed(store)
        await store.release(claim)
        await store.release(claim)

    async def test_releasing_a_lost_claim_does_not_release_the_new_owners(
        self, store: Store, other: Store
    ) -> None:
        lost = await claimed(store)
        await self.expire_leases(store)
        await other.claim("s", owner="w1", lease_s=LEASE_S)
        await store.release(lost)
        with pytest.raises(SessionBusy):
            await store.claim("s", owner="w3", lease_s=LEASE_S)

    async def test_renewing_keeps_a_lease_alive(self, store: Store) -> None:
        claim = await claimed(store)
        for _ in range(3):
            await self.advance_clock(store, LEASE_S - 5)
            assert list(await store.renew([claim])) == []
        await store.commit(claim, step(event(1)))

    async def test_renewing_returns_the_lost_claims(self, store: Store, other: Store) -> None:
        taken, released, kept = [await claimed(store, name) for name in ("a", "b", "c")]
        await store.release(released)
        await self.advance_clock(store, LEASE_S - 5)
        assert list(await store.renew([kept])) == []
        await self.advance_clock(store, 10)
        await other.claim("a", owner="w2", lease_s=LEASE_S)
        lost = await store.renew([taken, released, kept])
        assert {claim.session_id for claim in lost} == {"a", "b"}
        assert (await store.get("a")).owner == "w2"

    async def test_renewing_a_lost_claim_does_not_extend_the_new_owners_lease(
        self, store: Store
    ) -> None:
        await store.create(new_session("s"))
        lost, _ = await store.claim("s", owner="w1", lease_s=100 * LEASE_S)
        await store.release(lost)
        await store.claim("s", owner="w2", lease_s=LEASE_S)
        assert list(await store.renew([lost])) == [lost]
        with pytest.raises(SessionBusy) as busy:
            await store.claim("s", owner="w3", lease_s=LEASE_S)
        assert busy.value.free_in_s <= LEASE_S

    async def test_an_expired_lease_is_not_renewed(self, store: Store) -> None:
        claim = await claimed(store)
        await self.expire_leases(store)
        assert list(await store.renew([claim])) == [claim]
        with pytest.raises(LeaseLost):
            await store.commit(claim, step(event(1)))

    async def test_renewing_an_empty_list_does_nothing(self, store: Store) -> None:
        assert list(await store.renew([])) == []


class ClaimNextContract(StoreContractBase):
    """Claiming the next ready session."""

    async def test_claim_next_returns_none_without_ready_sessions(self, store: Store) -> None:
        await store.create(new_session("a"))
        await store.create(new_session("b", status="waiting"))
        assert await store.claim_next(owner="w1", lease_s=LEASE_S) is None

    async def test_claim_next_claims_a_ready_session_like_claim(
        self, store: Store, other: Store
    ) -> None:
        await store.create(new_session("s", status="ready"))
        found = await store.claim_next(owner="w1", lease_s=LEASE_S)
        assert found is not None
        claim, row = found
        assert (claim.session_id, claim.owner, claim.epoch) == ("s", "w1", 1)
        assert await other.get("s") == row
        await store.commit(claim, step(event(1)))

    async def test_claim_next_takes_the_longest_waiting_session_first(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            await store.create(new_session(name, status="ready"))
        first = await self._next(store)
        assert first.session_id == "a"
        await store.commit(first, step(event(1, "a"), release=True))
        order = [(await self._next(store)).session_id for _ in range(3)]
        assert order == ["b", "c", "a"]

    async def test_a_commit_makes_a_session_ready_or_idle(self, store: Store, other: Store) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(patch=SessionPatch(status="ready"), release=True))
        again = await self._next(other)
        assert again.session_id == "s"
        await other.commit(again, step(patch=SessionPatch(status="idle"), release=True))
        assert await store.claim_next(owner="w1", lease_s=LEASE_S) is None

    async def test_claim_next_skips_leased_sessions_until_their_lease_ends(
        self, store: Store, other: Store
    ) -> None:
        await store.create(new_session("a", status="ready"))
        await store.create(new_session("b", status="ready"))
        lost = await self._next(store)
        assert (await self._next(other)).session_id == "b"
        assert await other.claim_next(owner="w3", lease_s=LEASE_S) is None
        await self.expire_leases(store)
        again = await self._next(other)
        assert (again.session_id, again.epoch) == ("a", lost.epoch + 1)

    async def test_claim_next_finds_a_session_behind_many_claimed_ones(
        self, store: Store, other: Store
    ) -> None:
        names = [f"s{number}" for number in range(30)]
        for name in names:
            await store.create(new_session(name, status="ready"))
        taken = [(await self._next((store, other)[n % 2])).session_id for n in range(29)]
        assert taken == names[:-1]
        await store.create(new_session("last", status="ready"))
        assert [(await self._next(other)).session_id for _ in range(2)] == ["s29", "last"]
        assert await store.claim_next(owner="w", lease_s=LEASE_S) is None

    async def test_concurrent_claim_next_calls_take_the_first_sessions(self, store: Store) -> None:
        for number in range(8):
            await store.create(new_session(f"s{number}", status="ready"))
        taken = await asyncio.gather(*(self._next(store) for _ in range(5)))
        assert {claim.session_id for claim in taken} == {f"s{number}" for number in range(5)}
        assert {claim.epoch for claim in taken} == {1}
        found = await asyncio.gather(
            *(store.claim_next(owner="w", lease_s=LEASE_S) for _ in range(5))
        )
        assert {each[1].id for each in found if each} == {"s5", "s6", "s7"}
        for claim in taken:
            await store.commit(claim, step(event(1, claim.session_id)))

    @pytest.mark.parametrize("how", ["renewed", "committed"])
    async def test_claim_next_takes_a_long_running_session_of_a_dead_owner(
        self, store: Store, other: Store, how: str
    ) -> None:
        await store.create(new_session("s", status="ready"))
        claim = await self._next(store)
        for seq in range(1, 5):
            await self.advance_clock(store, LEASE_S - 5)
            assert await other.claim_next(owner="w2", lease_s=LEASE_S) is None
            if how == "renewed":
                assert list(await store.renew([claim])) == []
            else:
                await store.commit(claim, step(event(seq)))
        await self.advance_clock(store, LEASE_S - 5)
        assert await other.claim_next(owner="w2", lease_s=LEASE_S) is None
        await self.advance_clock(store, 10)
        again = await self._next(other)
        assert (again.session_id, again.epoch) == ("s", claim.epoch + 1)
        with pytest.raises(LeaseLost):
            await store.commit(claim, step(event(5)))

    async def test_claim_next_ignores_the_length_of_earlier_leases(
        self, store: Store, other: Store
    ) -> None:
        await store.create(new_session("s", status="ready"))
        long = await store.claim_next(owner="w1", lease_s=100 * LEASE_S)
        assert long is not None
        await store.commit(long[0], step(event(1), release=True))
        await self._next(other)
        assert await store.claim_next(owner="w1", lease_s=LEASE_S) is None
        await self.expire_leases(store)
        assert (await self._next(store)).epoch == 3

    async def test_a_session_made_ready_under_a_lease_stays_with_its_owner(
        self, store: Store, other: Store
    ) -> None:
        claim = await claimed(store)
        await store.commit(claim, step(patch=SessionPatch(status="ready")))
        assert await other.claim_next(owner="w2", lease_s=LEASE_S) is None
        await self.expire_leases(store)
        assert (await self._next(other)).session_id == "s"

    async def test_claim_next_takes_expired_sessions_of_the_named_agents_only(
        self, store: Store
    ) -> None:
        for name, agent in (("a", "sales"), ("b", "billing"), ("c", "sales")):
            await store.create(new_session(name, agent=agent, status="ready"))
        for _ in range(3):
            await self._next(store)
        await self.expire_leases(store)
        found = [
            await store.claim_next(owner="w", lease_s=LEASE_S, agents=["billing", "orders"])
            for _ in range(2)
        ]
        assert [each and each[1].id for each in found] == ["b", None]
        assert [(await self._next(store)).session_id for _ in range(2)] == ["a", "c"]

    async def test_claim_next_takes_sessions_of_the_named_agents_only(self, store: Store) -> None:
        await store.create(new_session("a", agent="Übersetzer 訳", status="ready"))
        await store.create(new_session("b", agent="billing", status="ready"))

        async def taken(*agents: str) -> str | None:
            found = await store.claim_next(owner="w", lease_s=LEASE_S, agents=agents)
            return None if found is None else found[1].id

        assert await taken("orders") is None
        assert await taken() is None
        assert await taken("orders", "billing") == "b"
        assert await taken("Übersetzer 訳") == "a"

    async def test_claim_next_skips_a_deleted_session(self, store: Store) -> None:
        await store.create(new_session("s", status="ready"))
        await store.delete("s")
        assert await store.claim_next(owner="w1", lease_s=LEASE_S) is None

    async def test_concurrent_claim_next_calls_never_return_the_same_session(
        self, store: Store, other: Store
    ) -> None:
        names = {f"s{number}" for number in range(20)}
        for name in sorted(names):
            await store.create(new_session(name, status="ready"))
        taken: list[str] = []
        while True:
            found: list[tuple[Claim, SessionRow] | None] = await asyncio.gather(
                *(
                    (store, other)[n % 2].claim_next(owner=f"w{n}", lease_s=LEASE_S)
                    for n in range(8)
                )
            )
            if not any(found):
                break
            taken += [each[0].session_id for each in found if each]
        assert len(taken) == len(names)
        assert set(taken) == names

    async def _next(self, store: Store) -> Claim:
        found = await store.claim_next(owner="w", lease_s=LEASE_S)
        assert found is not None
        return found[0]


class ChangeContract(StoreContractBase):
    """Notifications of changes."""

    async def test_wait_for_change_ends_after_a_change_by_another_connection(
        self, store: Store, other: Store
    ) -> None:
        async with asyncio.timeout(20):
            waiting = asyncio.create_task(other.wait_for_change(60))
            number = 0
            while not waiting.done():
                await asyncio.sleep(0)
                await store.create(new_session(f"s{number}", status="ready"))
                number += 1
            await waiting

    async def test_wait_for_change_ends_after_an_own_change(self, store: Store) -> None:
        async with asyncio.timeout(20):
            waiting = asyncio.create_task(store.wait_for_change(60))
            number = 0
            while not waiting.done():
                await asyncio.sleep(0)
                claim = await claimed(store, f"s{number}")
                await store.commit(claim, step(event(1, f"s{number}")))
                number += 1
            await waiting

    async def test_wait_for_change_ends_at_its_timeout(self, store: Store) -> None:
        async with asyncio.timeout(20):
            await store.wait_for_change(0)
            await store.wait_for_change(0.001)

    async def test_cancelling_one_waiter_leaves_the_other_waiters(self, store: Store) -> None:
        async with asyncio.timeout(20):
            tasks = [asyncio.create_task(store.wait_for_change(60)) for _ in range(3)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            number = 0
            while not all(task.done() for task in tasks):
                await asyncio.sleep(0)
                await store.create(new_session(f"s{number}"))
                number += 1
            await asyncio.gather(*tasks[1:])
