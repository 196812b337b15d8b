"""Agents of a worker take part in collaborations by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ekiden import Agent, Capability, Team
from ekiden.bus import Bus
from ekiden.collaboration import Collaboration, Collaborations
from ekiden.engine import Worker
from ekiden.engine.bus_server import CollaborationWorker
from ekiden.handoff.records import read_handoffs
from ekiden.runtime import CodeContext, RunConfig
from ekiden.storage.base import MessageFilter, NewSession, Store
from ekiden.storage.memory import MemoryStore


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.engine.bus_server._EVERY_S", 0.01)
    monkeypatch.setattr("ekiden.engine.bus_server._MOMENT_S", 0.0)


async def work(ctx: CodeContext[Any]) -> str:
    return f"done: {ctx.text}"


def able(name: str, proficiency: float, **options: Any) -> Agent[Any]:
    skill = Capability(name="refunds", proficiency=proficiency)
    return Agent(name, run=work, capabilities=(skill,), **options)


@asynccontextmanager
async def office(team: Team, store: Store) -> AsyncIterator[Collaborations]:
    """A process that serves the team, and another one's view of the collaborations."""
    task = asyncio.create_task(CollaborationWorker(store, team, RunConfig()).run())
    worker = Worker(store, team)
    working = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(60), Bus(store) as bus:
            yield Collaborations(bus)
    finally:
        worker.stop()
        task.cancel()
        await asyncio.gather(task, working, return_exceptions=True)


async def until(
    together: Collaborations, found: Collaboration, is_so: Callable[[Collaboration], bool]
) -> Collaboration:
    return await together.as_agent(found.initiator).wait_for(found.id, is_so)


async def test_capability_load_and_availability_make_the_bid_and_an_award_is_executed() -> None:
    store = MemoryStore()
    members = [
        able("best", 0.9),
        able("busy", 1.0, max_sessions=2),
        able("full", 1.0, max_sessions=1),
        able("off", 1.0, available=False),
        Agent("cook", run=work, capabilities=(Capability(name="cooking"),)),
    ]
    team = Team(Agent("lead", run=work, handoffs=list(members)))
    for agent in ("busy", "full"):
        # No worker runs these sessions: they stay at work.
        new = NewSession(id=f"{agent}-1", agent=agent, status="ready")
        await store.claim(new.id, owner="another", lease_s=600, create=new)
    async with office(team, store) as together:
        called = await together.as_agent("lead").call(
            ["refunds"], task="Refund order 9.", participants=[each.name for each in members]
        )
        found = await until(together, called, lambda each: not each.unanswered)
        assert [(bid.agent, bid.score) for bid in found.ranked_bids] == [
            ("best", 0.9),
            ("busy", 0.75),
        ]
        assert sorted(found.declined) == ["cook", "full", "off"]
        await together.as_agent("lead").award(called.id, "best")
        done = await until(together, called, lambda each: each.is_closed)
        assert done.outcome is not None
        assert (done.phase, done.outcome.status) == ("completion", "completed")
        [handoff] = await read_handoffs(store, called.id)
        assert (handoff.target, handoff.status) == ("best", "completed")
        while await store.find_messages(MessageFilter(states=("open",))):
            await store.wait_for_change(0.05)


async def test_a_request_is_acknowledged_unless_the_agent_is_unavailable() -> None:
    store = MemoryStore()
    off = Agent("off", run=work, available=False)
    team = Team(Agent("lead", run=work, handoffs=[able("clerk", 1.0), off]))
    async with office(team, store) as together:
        lead = together.as_agent("lead")
        taken = await lead.request_handoff("clerk", "Refund order 7.")
        done = await until(together, taken, lambda each: each.is_closed)
        assert done.outcome is not None
        assert done.outcome.status == "completed"
        asked = await lead.request_handoff("off", "Refund order 8.")
        refused = await until(together, asked, lambda each: each.is_closed)
        assert refused.outcome is not None
        assert (refused.outcome.status, refused.outcome.reason) == (
            "rejected",
            "off takes nothing now: it is switched off",
        )
        offer = await lead.propose("clerk", {"task": "Refund order 9.", "by": "Friday"})
        accepted = await until(together, offer, lambda each: "clerk" in each.accepted_by)
        await lead.accept(offer.id, 1)
        assert accepted.phase == "negotiation"
        assert (await until(together, offer, lambda each: each.is_closed)).phase == "completion"


async def test_an_explicit_answer_in_the_name_of_an_agent_takes_precedence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ekiden.engine.bus_server._MOMENT_S", 600.0)
    store = MemoryStore()
    team = Team(Agent("lead", run=work, handoffs=[able("clerk", 1.0)]))
    async with office(team, store) as together:
        asked = await together.as_agent("lead").request_handoff("clerk", "x", deadline_s=2400)
        refused = await together.as_agent("clerk").reject(asked.id, reason="not today")
        assert refused.outcome is not None
        assert refused.outcome.reason == "not today"


async def test_agents_served_by_another_process_are_not_answered_for() -> None:
    store, seen = MemoryStore(), asyncio.Event()
    team = Team(Agent("lead", run=work, handoffs=[able("clerk", 1.0)]))

    async def served(message: Any) -> None:
        seen.set()

    async with Bus(store) as other, other.serve("clerk", served), office(team, store) as together:
        asked = await together.as_agent("lead").request_handoff("clerk", "x")
        await seen.wait()
        assert (await together.get(asked.id)).phase == "negotiation"


async def test_one_query_finds_the_mail_of_all_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[MessageFilter] = []
    find = MemoryStore.find_messages

    async def counted(store: MemoryStore, where: MessageFilter, **page: Any) -> Any:
        looks.append(where)
        return await find(store, where, **page)

    store = MemoryStore()
    team = Team(Agent("lead", run=work, handoffs=[able(f"clerk-{n}", 1.0) for n in range(30)]))
    idle = CollaborationWorker(store, team, RunConfig())
    monkeypatch.setattr(MemoryStore, "find_messages", counted)
    assert not await idle.has_work()
    assert len(looks) == 1
