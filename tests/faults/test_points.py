"""No fault point is forgotten, and every scenario passes exactly those that it says."""

from __future__ import annotations

import pytest

from ekiden.testing.faults import fault_points
from tests.faults.child import Job
from tests.faults.databases import Database
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenarios import DATABASES, SCENARIOS, DatabaseName, is_unreachable

POINTS = sorted({point.name for point in fault_points()})


def test_every_point_is_in_some_scenario() -> None:
    visited = {
        point
        for scenario in SCENARIOS.values()
        for database in DATABASES
        for point in scenario.visits_on(database)
    }
    assert set(POINTS) - visited == set(), "a scenario must pass these points"
    assert visited - set(POINTS) == set(), "these points do not exist"


def test_there_are_at_least_as_many_points_as_promised() -> None:
    assert len(POINTS) >= 20


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_says_why_it_does_not_come_by_a_point(name: str, database: DatabaseName) -> None:
    visits = SCENARIOS[name].visits_on(database)
    reasons = SCENARIOS[name].unreachable_on(database)
    silent = [p for p in POINTS if p not in visits and not is_unreachable(p, reasons)]
    assert silent == [], "declare how often the scenario passes these, or why it does not"
    assert [point for point in visits if is_unreachable(point, reasons)] == []
    assert all(reasons.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_passes_no_point_more_often_than_it_says(
    name: str, database: Database, session_id: str, ledger: Ledger, victims: Nursery
) -> None:
    visits = SCENARIOS[name].visits_on(database.name)
    # What the runtime passes does not depend on the database: once is enough.
    own = [point for point in visits if point.startswith("store.")]
    points = POINTS if database.name == "sqlite" else own
    for number, point in enumerate(points):
        job = Job(
            scenario=name,
            store=database.url,
            session=f"{session_id}-{number}",
            folder=str(ledger.folder / str(number)),
        )
        _, code = victims.run(job, fault=f"{point}:{visits.get(point, 0) + 1}")
        assert code == 0, f"{point} is passed more often than {visits.get(point, 0)} times"
