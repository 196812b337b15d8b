"""Whatever agents, people and programs do: one owner, no loops, and a record that is sound."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.connection import connect
from ekiden.storage.sqlite.readers import deliver
from tests.unit.runtime.handoff_machine.machine import HandoffMachine
from tests.unit.runtime.handoff_machine.stores import Cutting
from tests.unit.runtime.handoff_machine.teams import Accent

pytestmark = pytest.mark.no_cover  # To measure it would take twice as long and add nothing.

STEPS_OF_A_SESSION = 30
FEWEST = 21
"""What comes of them on average, at least: some sessions end early."""
SOME = 300
"""Steps of each of the four machines in the normal run."""
MANY = 2_600
"""With the slow tests: together more than 10,000."""
LONG = 30_000


class Returns(HandoffMachine):
    """Teams that pass a task to and fro: loops, depth, and returns that are declared."""

    accent = Accent(
        kinds=("model",) * 7 + ("code",),
        available=("yes",),
        returns=(True, True, False, "always"),
        policies=("graceful",),
        needs=(None,) * 9 + ("cut",),
        triggers=(None,) * 9 + ("event",),
        extras=("",) * 6 + ("last", "no tools"),
        depths=(3, 1, 2, 4, 8),
        moves=(
            "hand", "hand", "hand", "hand words", "hand words", "say hand", "tool hand", "tool",
            "two hands", "best", "say",
        ),
    )  # fmt: skip


class Failures(HandoffMachine):
    """Targets that fail before they took over: rollbacks, compensations, budgets."""

    accent = Accent(
        kinds=("model",) * 6 + ("code", "runner"),
        available=("yes",) * 9 + ("asked",),
        returns=(True, True, "always", False),
        completes=("result", "result", "result", "answer"),
        policies=("graceful",) * 6 + ("immediate",),
        needs=(None,),
        triggers=(None,) * 9 + ("error",),
        extras=("", "budget", "budget", "budget", "last", "budget restrict"),
        tools=("level", "book"),
        depths=(3, 2, 5),
        moves=(
            "hand", "hand", "hand", "tool", "tool", "two tools", "tool hand", "tool hand", "fail",
            "fail", "fail once", "stray",
        ),
    )  # fmt: skip


class Triggers(HandoffMachine):
    """Teams in which conditions, events and errors hand over, and conditions forbid it."""

    accent = Accent(
        kinds=("model",) * 6 + ("code", "person"),
        policies=("graceful", "graceful", "conditional", "immediate"),
        triggers=(None, "condition", "event", "error"),
        extras=("",) * 4 + ("confirm", "last"),
        moves=(
            "tool", "tool", "tool", "two tools", "tool hand", "hand", "say hand", "fail",
            "fail once", "stray", "say",
        ),
    )  # fmt: skip


class Everybody(HandoffMachine):
    """People, code, agents elsewhere, the best at something; and all terms there are."""

    accent = Accent(kinds=("model", "person", "code", "runner", "model", "model"))


class Stored(HandoffMachine):
    """Anything, in a database."""

    accent = Accent(kinds=("model",) * 4 + ("person", "code", "runner"))

    def make_store(self) -> Any:
        self.folder = tempfile.TemporaryDirectory()
        return CuttingSqlite(Path(self.folder.name, "machine.db"))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


class CuttingSqlite(Cutting, SqliteStore):
    """In a file, without threads: what meets what does not depend on who is quicker."""

    async def _running(self) -> Any:
        if (parts := self._parts) is None:
            parts = await super()._running()
            writer, db = parts.writer, connect(Path(self.url), busy_s=10.0, read_only=True)

            def write(job: Any) -> Any:
                before = writer._changes()
                writer._execute([job])
                deliver([job], parts.watch.notify if writer._changes() != before else None)
                return job.future

            async def read(work: Any, *, quick: bool = False) -> Any:
                return work(db)

            writer._submit = write  # type: ignore[method-assign]
            parts.readers.read = read  # type: ignore[method-assign, assignment]
        return parts


def run_machine(machine: type[HandoffMachine], steps: int, **options: Any) -> Counter[str]:
    """Play sessions until there were so many steps; how handoffs ended."""
    machine.steps, machine.seen = 0, Counter()
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=steps // FEWEST,
            stateful_step_count=STEPS_OF_A_SESSION,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )
    assert machine.steps >= steps
    return machine.seen


some_or_many = pytest.mark.parametrize(
    "steps", [SOME, pytest.param(MANY, marks=pytest.mark.slow)], ids=["some", "many"]
)


def seldom(steps: int, *codes: str) -> set[str]:
    """How few handoffs end: not to be expected of some steps.

    Which examples are tried depends on all modules that happen to be imported: Hypothesis takes
    values from their sources.
    """
    return set(codes) if steps >= MANY else set()


ALWAYS_THE_SAME = {"derandomize": True, "database": None}
"""A test that fails fails again, on every machine."""


@some_or_many
def test_the_machine_always_catches_loops_and_maximum_depth(steps: int) -> None:
    seen = run_machine(Returns, steps, **ALWAYS_THE_SAME)
    assert {"completed", "CIRCULAR_HANDOFF", "MAX_DEPTH_EXCEEDED", "PERMISSION_DENIED"} <= set(seen)


@some_or_many
def test_the_machine_restores_everything_when_a_target_fails(steps: int) -> None:
    seen = run_machine(Failures, steps, **ALWAYS_THE_SAME)
    assert {"completed", "TARGET_FAILED", "BUDGET_EXCEEDED", *seldom(steps, "CANCELLED")} <= set(
        seen
    )


@some_or_many
def test_the_machine_fires_triggers_only_when_they_match(steps: int) -> None:
    seen = run_machine(Triggers, steps, **ALWAYS_THE_SAME)
    few = seldom(steps, "TARGET_FAILED", "NOT_APPROVED")
    assert {"completed", "CONDITIONS_NOT_MET", *few} <= set(seen)


@some_or_many
def test_the_machine_lets_people_programs_and_triggers_hand_off(steps: int) -> None:
    seen = run_machine(Everybody, steps, **ALWAYS_THE_SAME)
    often = {"completed", "PERMISSION_DENIED", "CAPABILITY_MISSING", "CONDITIONS_NOT_MET"}
    few = seldom(steps, "AGENT_NOT_FOUND", "AGENT_UNAVAILABLE", "DECLINED", "NOT_APPROVED")
    assert often | few <= set(seen)


@pytest.mark.slow
def test_the_machine_records_the_same_in_a_database_and_in_memory() -> None:
    assert run_machine(Stored, 100, **ALWAYS_THE_SAME)["completed"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("machine", [Returns, Failures, Triggers, Everybody])
def test_the_machine_survives_many_more_steps(machine: type[HandoffMachine]) -> None:
    run_machine(machine, LONG, print_blob=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_machine_survives_many_more_steps_in_a_database() -> None:
    run_machine(Stored, MANY, print_blob=True)
