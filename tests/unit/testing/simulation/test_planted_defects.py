"""A simulation that cannot fail is worth nothing: each defect that is planted is found."""

from __future__ import annotations

import pytest

from ekiden.testing.simulation import simulate
from tests.unit.testing.simulation.defects import DEFECTS

_SEEDS = 40


@pytest.mark.parametrize(
    "name",
    [
        name if number % 4 == 0 else pytest.param(name, marks=pytest.mark.slow)
        for number, name in enumerate(DEFECTS)
    ],
)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defect = DEFECTS[name]
    defect.plant(monkeypatch)
    for seed in range(defect.first, defect.first + _SEEDS):
        report = simulate(seed=seed)
        if not report.ok:
            assert {each.rule for each in report.violations} & defect.rules
            return
    pytest.fail(f"{name} went unnoticed for {_SEEDS} seeds")
