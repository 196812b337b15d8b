"""A run that stopped at a limit goes on without doing anything twice."""

from __future__ import annotations

import pytest

from ekiden.runtime import Limits, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.faults.evidence import check_log, read
from tests.faults.ledger import Ledger
from tests.faults.scenarios import SCENARIOS
from tests.faults.world import World


@pytest.mark.parametrize("limits", [Limits(turns=1), Limits(turns=2)], ids=repr)
async def test_tools_parallel_to_a_handoff_run_once_under_any_limit(
    limits: Limits, ledger: Ledger
) -> None:
    scenario, world = SCENARIOS["parallel"], World(ledger.folder)
    session, team = Session("s", store=MemoryStore()), scenario.team(world)
    stopped = await Runner.run(team, "go", session=session, run_config=RunConfig(limits=limits))
    assert stopped.outcome.kind == "out_of_budget"
    resumed = await Runner.resume(team, session)
    assert resumed.outcome.kind == "done"
    record = await read(session.store, "s")
    assert record is not None
    check_log(record, entry=scenario.entry)
    assert ledger.effects() == sorted(scenario.effects)
    assert len(ledger.lines("attempt")) == len(scenario.effects)
