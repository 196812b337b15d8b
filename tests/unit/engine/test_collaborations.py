"""What agents agreed on is done by the workers that may run the partner, and by no others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.collaboration import Collaborations
from ekiden.core.agent import Agent, Team
from ekiden.engine import Worker
from ekiden.engine.bus_server import CollaborationWorker
from ekiden.handoff.records import read_handoffs
from ekiden.runtime import CodeContext, RunConfig
from ekiden.storage.memory import MemoryStore


class Office:
    """Triage, and a painter that needs a label; both may agree on something."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.painted = 0

        async def paint(ctx: CodeContext[Any]) -> str:
            self.painted += 1
            return "painted"

        async def triage(ctx: CodeContext[Any]) -> str:
            return "no"

        painter = Agent("painter", run=paint, runs_on=frozenset({"gpu"}))
        self.team = Team(Agent("triage", run=triage, handoffs=[painter]), painter)

    async def agree(self) -> str:
        async with Bus(self.store) as bus:
            together = Collaborations(bus)
            asked = await together.as_agent("triage").request_handoff("painter", "A cat.")
            await together.as_agent("painter").acknowledge(asked.id)
        return asked.id

    async def phase(self, agreement: str) -> str:
        async with Bus(self.store) as bus:
            return (await Collaborations(bus).get(agreement)).phase


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.engine.bus_server._EVERY_S", 0.01)


@pytest.mark.usefixtures("quick")
async def test_an_agreed_partner_runs_only_on_workers_with_its_labels() -> None:
    office = Office()
    agreement = await office.agree()
    agreeing = CollaborationWorker(office.store, office.team, RunConfig())
    task = asyncio.create_task(agreeing.run())
    async with asyncio.timeout(60):
        while await office.phase(agreement) != "execution" or not (
            await read_handoffs(office.store, agreement)
        ):
            await office.store.wait_for_change(0.05)
        await Worker(office.store, office.team).run(until_idle=True)
        row = await office.store.get(agreement)
        assert (row.agent, row.status, row.owner) == ("painter", "ready", None)
        assert office.painted == 0
        await Worker(office.store, office.team, labels=["gpu"]).run(until_idle=True)
        while await office.phase(agreement) != "completion":
            await office.store.wait_for_change(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert office.painted == 1
    [record] = await read_handoffs(office.store, agreement)
    assert record.status == "completed"


@pytest.mark.usefixtures("quick")
async def test_a_stopping_worker_starts_no_execution() -> None:
    office, stopping = Office(), asyncio.Event()
    agreeing = CollaborationWorker(
        office.store, office.team, RunConfig(), stopping=lambda: stopping
    )
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        ending = group.create_task(agreeing.run())
        await asyncio.sleep(0)
        assert not ending.done()
        stopping.set()
    agreement = await office.agree()
    await agreeing.run()
    assert await office.phase(agreement) == "agreement"
