"""No fault point is forgotten, and every scenario passes exactly those that it says."""

from __future__ import annotations

import pytest

from ekiden.testing.faults import fault_points
from tests.faults.choosing import marked
from tests.faults.processes import Nursery
from tests.faults.scenarios import ALL, ASKS, DATABASES, DatabaseName, is_unreachable
from tests.faults.scene import Scene
from tests.faults.test_copy_kills import OF_COPIES
from tests.faults.test_request_kills import OF_REQUESTS

EVERY = {**ALL, **ASKS}
POINTS = sorted({point.name for point in fault_points()})


def test_every_fault_point_is_in_some_scenario() -> None:
    visited = {
        point
        for scenario in EVERY.values()
        for database in DATABASES
        for point in scenario.visits_on(database)
    }
    visited |= OF_REQUESTS | OF_COPIES
    assert set(POINTS) - visited == set(), "a scenario must pass these points"
    assert visited - set(POINTS) == set(), "these points do not exist"


def test_the_number_of_fault_points_is_as_promised() -> None:
    assert len(POINTS) >= 20


@pytest.mark.parametrize("database", DATABASES)
def test_scenarios_give_reasons_for_fault_points_they_skip(database: DatabaseName) -> None:
    for name in EVERY:
        _check_reasons(name, database)


def _check_reasons(name: str, database: DatabaseName) -> None:
    visits = EVERY[name].visits_on(database)
    reasons = EVERY[name].unreachable_on(database)
    of_runs = [point for point in POINTS if point not in OF_COPIES]
    silent = [p for p in of_runs if p not in visits and not is_unreachable(p, reasons)]
    assert silent == [], "declare how often the scenario passes these, or why it does not"
    assert [point for point in visits if is_unreachable(point, reasons)] == []
    assert all(reasons.values())


EACH = [(database, name) for database in DATABASES for name in EVERY]
QUICK = {("sqlite", "relay"), ("sqlite", "conditional"), ("postgres", "relay")}


@pytest.mark.parametrize(("database", "scene"), marked(EACH, QUICK), indirect=True)
def test_a_scenario_passes_each_fault_point_as_often_as_declared(
    scene: Scene, victims: Nursery
) -> None:
    pid, code = victims.run(scene.job_with(task="count"))
    assert code == 0
    [counted] = scene.ledger.lines("result", pid=pid)
    scenario = EVERY[scene.job.scenario]
    found = counted["value"]
    if scenario.is_side_by_side:
        found = {point: times for point, times in found.items() if not point.startswith("store.")}
    assert found == scenario.visits_on(scene.database.name)
