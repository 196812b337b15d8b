"""The comparison of counted instructions with their baselines. It measures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.gate.compare import CPU_TIME, FLOOR, Baselines, Scenario

FILE = Path(__file__).parents[2] / "benchmarks/gate/baselines.json"
OURS = "CPython 3.11.7 x86_64"
SCENARIOS = {
    "s1": Scenario(unit="instructions per handoff", reason="first measured"),
    "memory": Scenario(unit="bytes per session", reason="first measured"),
}
BASELINES = Baselines(
    scenarios=SCENARIOS,
    figures={
        OURS: {FLOOR: 1000, "s1": 7000, "memory": 10_000},
        "CPython 3.12.1 x86_64": {FLOOR: 800, "s1": 6000, "memory": 9000},
        CPU_TIME: {FLOOR: 1, "s1": 10, "memory": 10_000},
    },
)


def verdict(source: str, name: str, value: float, *, floor: float = 1000) -> str:
    """The verdict on one figure."""
    measured = {FLOOR: floor, name: value}
    [found] = BASELINES.compare(BASELINES.reference(source, measured), measured)
    assert found.is_failed == (found.verdict in ("worse", "no baseline"))
    return found.verdict


@pytest.mark.parametrize(
    ("value", "expected"), [(7420, "worse"), (7340, "ok"), (6700, "ok"), (6500, "better")]
)
def test_more_than_five_percent_above_the_baseline_is_worse(value: float, expected: str) -> None:
    assert verdict(OURS, "s1", value) == expected


def test_a_few_bytes_for_a_session_are_not_worse() -> None:
    assert verdict(OURS, "memory", 10_590) == "ok"
    assert verdict(OURS, "memory", 10_610) == "worse"


def test_another_interpreter_is_compared_with_the_most_similar_one_by_the_floor() -> None:
    reference = BASELINES.reference("CPython 3.12.9 x86_64", {FLOOR: 1600})
    assert (reference.source, reference.scale) == ("CPython 3.12.1 x86_64", 2)
    assert verdict("CPython 3.12.9 x86_64", "s1", 14_900, floor=1600) == "ok"
    assert verdict("CPython 3.12.9 x86_64", "s1", 15_100, floor=1600) == "worse"
    assert verdict("CPython 3.12.9 x86_64", "memory", 18_000, floor=1600) == "worse"


def test_another_build_of_the_same_version_is_another_interpreter() -> None:
    assert BASELINES.reference(OURS, {FLOOR: 1010}).scale == 1
    assert BASELINES.reference(OURS, {FLOOR: 1500}).scale == 1.5


def test_cpu_time_has_a_bound_that_only_large_regressions_reach() -> None:
    assert verdict(CPU_TIME, "s1", 16.9) == "ok"
    assert verdict(CPU_TIME, "s1", 20) == "worse"


def test_a_scenario_without_a_baseline_fails() -> None:
    figures = {OURS: {FLOOR: 1000.0}}
    found = Baselines(scenarios=SCENARIOS, figures=figures)
    measured = {FLOOR: 1000.0, "s1": 7000.0}
    [only] = found.compare(found.reference(OURS, measured), measured)
    assert (only.verdict, only.is_failed) == ("no baseline", True)


def test_a_new_baseline_has_a_reason_and_changes_all_sources_by_the_same_factor() -> None:
    measured = {FLOOR: 1000.0, "s1": 7700.0, "memory": 20_000.0}
    new = BASELINES.updated(OURS, measured, ["s1"], "handoffs are signed")
    assert new.scenarios["s1"].reason == "handoffs are signed"
    assert new.scenarios["memory"] == SCENARIOS["memory"]
    assert {source: each["s1"] for source, each in new.figures.items()} == {
        OURS: 7700,
        "CPython 3.12.1 x86_64": 6600,
        CPU_TIME: 11,
    }
    assert new.figures[OURS]["memory"] == 10_000


def test_baselines_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "baselines.json"
    path.write_text(BASELINES.text(), "utf-8")
    assert Baselines.load(path) == BASELINES


def test_every_stored_figure_has_a_scenario_and_a_reason() -> None:
    stored = Baselines.load(FILE)
    assert stored.figures
    for source, figures in stored.figures.items():
        assert figures.keys() - {FLOOR} == stored.scenarios.keys(), source
    assert all(each.reason for each in stored.scenarios.values())
