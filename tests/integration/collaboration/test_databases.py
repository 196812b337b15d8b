"""Collaborations on every database: the same moves, the same record, one winner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.bus import Bus
from ekiden.collaboration import Collaboration, Collaborations, Incoming
from ekiden.core.conversation.messages import Letter, agent_queue
from ekiden.core.errors.collaboration import CollaborationError, MessageReplayed
from ekiden.project import open_store
from ekiden.storage.base import MessageFilter, Store
from ekiden.storage.records import EXECUTIONS
from ekiden.storage.timers import TIMERS


class Done:
    """An executor that says which collaboration it was given."""

    async def execute(self, collaboration: Collaboration) -> str:
        return collaboration.id


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "work.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    async with open_store(address) as opened:
        yield opened


@pytest.fixture
def collaborations(store: Store) -> Collaborations:
    return Collaborations(Bus(store), executor=Done())


async def test_an_agreement_with_any_text_is_executed(
    store: Store, collaborations: Collaborations
) -> None:
    ann, bob = collaborations.as_agent("アン"), collaborations.as_agent("bob")
    terms = {"名前": "箱 📦", "half": "\ud83d", "nul": "\x00", "n": [1e22, 0.1, -0.0, 10**30]}
    offer = await ann.propose("bob", terms)
    await bob.counter(offer.id, {**terms, "more": True})
    await ann.accept(offer.id, 2)
    agreed = await bob.accept(offer.id, 2)
    assert agreed.agreed is not None
    [done] = await collaborations.resume()
    assert done.outcome is not None
    assert (done.phase, done.outcome.result) == ("completion", offer.id)
    assert await store.list_documents(EXECUTIONS) == []
    assert await store.list_documents(TIMERS) == []
    moves = [(event.details or {})["move"] for event in (await store.feed()).events]
    assert moves == ["propose", "counter", "accept", "accept", "execute", "complete"]
    for message in await store.find_messages(MessageFilter(queue=agent_queue("bob"))):
        carried = Letter.from_json(message.body).message
        with pytest.raises(MessageReplayed):
            await collaborations.submit(carried)


async def test_of_concurrent_moves_only_the_valid_ones_count(
    store: Store, collaborations: Collaborations
) -> None:
    """Each has its own `Collaborations`, as in another process: nothing but the store is shared."""
    called = await collaborations.as_agent("ann").call(
        ["x"], participants=[f"agent-{number}" for number in range(12)]
    )

    async def bid(number: int) -> None:
        other = Collaborations(Bus(store))
        await other.as_agent(f"agent-{number}").bid(called.id, number / 12)

    await asyncio.gather(*map(bid, range(12)))

    async def award(number: int) -> str:
        other = Collaborations(Bus(store))
        try:
            await other.as_agent("ann").award(called.id, f"agent-{number}")
        except CollaborationError as exc:
            return exc.code
        return "made"

    results = await asyncio.gather(*map(award, range(4)))
    assert sorted(results) == ["collaboration.phase"] * 3 + ["made"]
    found = await collaborations.get(called.id)
    assert len(found.ranked_bids) == 12
    assert found.partner == f"agent-{results.index('made')}"


async def test_agents_on_the_bus_reach_an_agreement_and_settle_it(
    store: Store, collaborations: Collaborations
) -> None:
    async def agree(incoming: Incoming) -> None:
        if incoming.move == "request":
            await incoming.party.acknowledge(incoming.collaboration.id)

    ann = collaborations.as_agent("ann")
    async with (
        asyncio.timeout(60),
        Bus(store) as bus,
        bus.serve("bob", collaborations.handler("bob", agree)),
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(collaborations.run())
        asked = await ann.request_handoff("bob", "count the boxes")
        done = await ann.wait_for(asked.id)
        running.cancel()
    assert done.outcome is not None
    assert (done.outcome.status, done.outcome.result) == ("completed", asked.id)
