"""The comparison of counted instructions with their baselines. It measures nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.gate.__main__ import main
from benchmarks.gate.compare import CPU_TIME, FLOOR, Baselines, Scenario, WrongSource

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


def test_a_few_bytes_for_a_session_are_neither_worse_nor_better() -> None:
    assert verdict(OURS, "memory", 9430) == "ok"
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
    assert verdict(CPU_TIME, "s1", 14.9) == "ok"
    assert verdict(CPU_TIME, "s1", 15.1) == "worse"


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


@pytest.mark.parametrize(
    ("source", "floor"), [(OURS, 1500), ("CPython 3.12.9 x86_64", 1000), (CPU_TIME, 3)]
)
def test_only_a_build_with_its_own_figures_can_update_them(source: str, floor: float) -> None:
    with pytest.raises(WrongSource, match=f"use one of {OURS}"):
        BASELINES.updated(source, {FLOOR: floor, "s1": 7700.0}, ["s1"], "handoffs are signed")


def test_the_figures_of_a_new_scenario_are_scaled_by_the_floors() -> None:
    added = {
        "s2": Scenario(unit="instructions per session", reason="?"),
        "disk": Scenario(unit="bytes per session", reason="?"),
    }
    old = Baselines(scenarios={**SCENARIOS, **added}, figures=BASELINES.figures)
    new = old.updated(OURS, {FLOOR: 1000, "s2": 5000, "disk": 70}, ["s2", "disk"], "new")
    assert [(each["s2"], each["disk"]) for each in new.figures.values()] == [
        (5000, 70),
        (4000, 70),
        (5, 70),
    ]


def test_figures_are_added_for_a_new_interpreter_only() -> None:
    measured = {FLOOR: 900.0, "s1": 6500.0, "memory": 9500.0}
    added = BASELINES.with_source("CPython 3.13.0 x86_64", measured)
    assert added.figures == {**BASELINES.figures, "CPython 3.13.0 x86_64": measured}
    with pytest.raises(WrongSource, match="UPDATE changes them"):
        BASELINES.with_source(OURS, measured)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--update", "s1"], "needs a reason"),
        (["--update", "s1", "--reason", " "], "needs a reason"),
        (["--update", "s99", "--reason", "it's new"], "unknown scenarios: s99"),
        (["--update", "s1", "--reason", "it's new", "--group", "version"], "leave out --group"),
        (["--update", "s1", "--reason", "it's new", "--cpu-time"], "install valgrind"),
        (["--update", "s1", "--reason", "it's new"], "install valgrind"),
        (["--add"], "install valgrind"),
    ],
)
def test_nothing_is_measured_if_it_could_not_be_stored(
    options: list[str],
    advice: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["gate", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert advice in capsys.readouterr().err


def test_cpu_time_is_never_called_instructions() -> None:
    measured = {FLOOR: 1.0, "s1": 10.0}
    [found] = BASELINES.compare(BASELINES.reference(CPU_TIME, measured), measured)
    assert found.unit == "floors per handoff"


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
