"""No fault point is forgotten, and every scenario passes exactly those that it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.testing.faults import fault_points
from tests.faults.child import Job
from tests.faults.databases import SqliteDatabase
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenarios import SCENARIOS, is_unreachable

POINTS = sorted({point.name for point in fault_points()})


def test_every_point_is_in_some_scenario() -> None:
    visited = {point for scenario in SCENARIOS.values() for point in scenario.visits}
    assert set(POINTS) - visited == set(), "a scenario must pass these points"
    assert visited - set(POINTS) == set(), "these points do not exist"


def test_there_are_at_least_as_many_points_as_promised() -> None:
    assert len(POINTS) >= 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_says_why_it_does_not_come_by_a_point(name: str) -> None:
    scenario = SCENARIOS[name]
    silent = [p for p in POINTS if p not in scenario.visits and not is_unreachable(scenario, p)]
    assert silent == [], "declare how often the scenario passes these, or why it does not"
    contradictory = [point for point in scenario.visits if is_unreachable(scenario, point)]
    assert contradictory == []
    assert all(scenario.unreachable.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_passes_no_point_more_often_than_it_says(
    name: str, tmp_path: Path, victims: Nursery
) -> None:
    visits = SCENARIOS[name].visits
    for number, point in enumerate(POINTS):
        folder = tmp_path / str(number)
        Ledger(folder)
        database = SqliteDatabase(folder / "ekiden.db")
        job = Job(scenario=name, store=database.url, folder=str(folder))
        _, code = victims.run(job, fault=f"{point}:{visits.get(point, 0) + 1}")
        assert code == 0, f"{point} is passed more often than {visits.get(point, 0)} times"
