"""Leases of running sessions are kept, and their loss is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import LeaseLost, StoreUnavailable
from ekiden.core.values import owner_name
from ekiden.runtime import RunConfig, Runner
from ekiden.runtime.state.leases import keeper_of
from ekiden.sessions import Session
from ekiden.storage.base import Claim, Commit, NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, delay, hang, say

QUICK = RunConfig(lease_s=0.03)


class SharedStore(MemoryStore):
    """A memory store that says that others may use it, and records renewals."""

    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.renewals = 0
        self.renewed = asyncio.Event()
        self.broken = 0

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        self.renewals += 1
        if self.broken:
            self.broken -= 1
            raise StoreUnavailable("away for a moment")
        lost = await super().renew(claims)
        self.renewed.set()
        return lost


async def test_the_lease_is_renewed_while_the_model_thinks() -> None:
    store = SharedStore()
    model = ScriptedModel([delay(store.renewed, say("ok"))])
    session = Session("s", store=store)
    result = await Runner.run(Agent("a", model=model), "hi", session=session, run_config=QUICK)
    assert result.final_output == "ok"
    assert store.renewals >= 1


async def test_a_store_that_is_away_for_a_moment_is_asked_again() -> None:
    store = SharedStore()
    store.broken = 2
    model = ScriptedModel([delay(store.renewed, say("ok"))])
    session = Session("s", store=store)
    result = await Runner.run(Agent("a", model=model), "hi", session=session, run_config=QUICK)
    assert result.final_output == "ok"
    assert store.renewals >= 3


async def test_a_lost_lease_ends_the_run_during_a_model_call() -> None:
    store = SharedStore()
    model = ScriptedModel([hang()])
    session = Session("s", store=store)
    run = asyncio.create_task(
        Runner.run(Agent("a", model=model), "hi", session=session, run_config=QUICK)
    )
    await model.until_called(1)
    store.advance(60)
    await store.claim("s", owner="another", lease_s=30)
    with pytest.raises(LeaseLost):
        await run
    assert (await session.row()).owner == "another"


async def test_all_runs_of_a_store_share_one_lease_keeper_until_they_end() -> None:
    store = SharedStore()
    model = ScriptedModel([hang(), hang()])
    agent: Agent[Any] = Agent("a", model=model)
    runs = [
        asyncio.create_task(Runner.run(agent, "hi", session=Session(f"s{n}", store=store)))
        for n in range(2)
    ]
    await model.until_called(2)
    keeper = keeper_of(store)
    assert keeper is keeper_of(store)
    for run in runs:
        run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    assert keeper_of(store) is not keeper


def test_a_process_keeps_one_owner_name() -> None:
    assert owner_name() == owner_name()


class SlowToAnswer(SharedStore):
    """The acknowledgement of what ends a run comes after a time to renew leases."""

    async def commit(self, claim: Claim, commit: Commit) -> None:
        await super().commit(claim, commit)
        if commit.release:
            self.renewed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self.renewed.wait()
                    await asyncio.sleep(0)


async def test_a_run_that_released_its_lease_does_not_report_it_lost() -> None:
    agent: Agent[Any] = Agent("a", model=ScriptedModel([say("ok")]))
    session = Session("s", store=SlowToAnswer())
    result = await Runner.run(agent, "hi", session=session, run_config=QUICK)
    assert result.final_output == "ok"


async def claimed(store: MemoryStore, name: str, lease_s: float) -> Claim:
    new = NewSession(id=name, agent="a")
    claim, _ = await store.claim(name, owner="me", lease_s=lease_s, create=new)
    return claim


async def test_a_task_that_lost_its_lease_is_no_longer_marked_as_cancelling() -> None:
    store = SharedStore()
    claim = await claimed(store, "s", QUICK.lease_s)
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(LeaseLost), keeper_of(store).hold(claim) as hold, hold.step(task):
        store.advance(60)
        await asyncio.get_running_loop().create_future()
    assert task.cancelling() == 0


async def test_a_lost_lease_does_not_cancel_the_reader_of_the_stream() -> None:
    store = SharedStore()
    session = Session("s", store=store)
    agent: Agent[Any] = Agent("a", model=ScriptedModel([say("ok")]))
    seen: list[str] = []
    with pytest.raises(LeaseLost):
        async for event in Runner.run_streamed(
            agent, "hi", session=session, run_config=QUICK
        ).events():
            if not seen:
                store.advance(60)
                await store.claim("s", owner="another", lease_s=30)
                store.renewed.clear()
                await store.renewed.wait()
                await asyncio.sleep(0)
            seen.append(type(event).__name__)
    assert seen == ["Event"]


async def test_the_shortest_lease_sets_the_renewal_interval() -> None:
    store = SharedStore()
    long, short = await claimed(store, "long", 3600), await claimed(store, "short", QUICK.lease_s)
    keeper = keeper_of(store)
    with keeper.hold(long), keeper.hold(short):
        async with asyncio.timeout(60):
            await store.renewed.wait()


async def test_a_new_claim_in_the_same_process_ends_the_older_hold_at_once() -> None:
    store = SharedStore()
    keeper = keeper_of(store)
    with keeper.hold(await claimed(store, "s", 30)) as older:
        store.advance(60)
        with keeper.hold(await claimed(store, "s", 30)) as newer:
            with pytest.raises(LeaseLost):
                older.check()
            newer.check()
    assert store.renewals == 0


async def test_a_new_claim_ends_the_latest_hold_even_if_an_older_one_ended() -> None:
    store = SharedStore()
    keeper = keeper_of(store)
    claims = []
    for _ in range(3):
        claims.append(await claimed(store, "s", 30))
        store.advance(60)
    with keeper.hold(claims[0]), keeper.hold(claims[1]) as second:
        keeper.let_go(claims[0])
        with keeper.hold(claims[2]) as third:
            assert second.lost
            assert not third.lost


async def test_holds_of_different_sessions_do_not_end_each_other() -> None:
    store = SharedStore()
    keeper = keeper_of(store)
    one, other = await claimed(store, "one", 30), await claimed(store, "other", 30)
    with keeper.hold(one) as hold, keeper.hold(other):
        hold.check()
