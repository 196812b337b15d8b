"""Whatever agents, people and programs do: one owner, no loops, and a record that is sound."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.runtime.handoff_machine.machine import HandoffMachine

STEPS = 25


def run_machine(machine: type[HandoffMachine], steps: int, **options: Any) -> None:
    machine.steps, machine.seen = 0, Counter()
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=steps // STEPS,
            stateful_step_count=STEPS + 1,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )
    print(machine.steps, machine.seen)


class Anything(HandoffMachine):
    """All kinds of agents and terms."""


def test_any() -> None:
    run_machine(Anything, 3000, derandomize=True, database=None)
