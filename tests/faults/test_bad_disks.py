"""A disk that fails at every single write and sync of a run: nothing is half done, nothing lost."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from tests.faults.bad_disk import TROUBLES, Trouble
from tests.faults.child import REFUSED
from tests.faults.conftest import Reference
from tests.faults.crowd import STEPS
from tests.faults.evidence import Record, check_ending, check_work
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scene import Scene

SQLITE_RELAY = pytest.mark.parametrize(
    ("database", "scene"), [("sqlite", "relay")], indirect=["database", "scene"]
)
_QUICK = 3


@pytest.fixture
async def made(scene: Scene) -> AsyncIterator[Scene]:
    """The scene in a file that exists: what fails is the run."""
    async with scene.database.open():
        yield scene


def check_acknowledged(left: Record | None, ledger: Ledger, pid: int) -> None:
    """A step that is followed by another was acknowledged: it is stored."""
    asked = [line["step"] for line in ledger.lines("model", pid=pid)]
    if asked:
        assert left is not None
        assert set(STEPS[: STEPS.index(asked[-1])]) <= left.done
    if ledger.lines("result", pid=pid):
        assert left is not None
        assert left.row.outcome == "done"


async def survive(
    scene: Scene, disk: str, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> bool:
    """Let a run meet this trouble and another go on; whether the first one met it."""
    pid, code = victims.run(scene.job_with(disk=disk))
    assert code in (0, REFUSED)
    if code == REFUSED:
        [error] = scene.ledger.lines("error", pid=pid)
        assert error["code"] == "store.unavailable"
        assert "disk" in error["text"], error["text"]
    left = await scene.left_by_the_dead()
    check_acknowledged(left, scene.ledger, pid)
    rescuer, code_after = rescuers.run(scene.job)
    assert code_after == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(await scene.read(), scene.ledger, await unharmed("relay"))
    return code == REFUSED


async def operations(scene: Scene, rescuers: Nursery, ledger: Ledger) -> dict[str, int]:
    """How many writes and syncs a run of the scene makes."""
    other = Scene("relay", scene.database, f"{scene.session_id}-peace", Ledger(ledger.folder / "p"))
    pid, code = rescuers.run(other.job_with(disk="count"))
    assert code == 0
    [counted] = other.ledger.lines("disk", pid=pid)
    return {what: counted[what] for what in ("write", "sync")}


@SQLITE_RELAY
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(
    "lasting",
    [pytest.param("", id="once"), pytest.param("+", id="for_ever", marks=pytest.mark.slow)],
)
async def test_a_run_survives_disk_failures_at_sampled_moments(
    made: Scene,
    trouble: Trouble,
    lasting: str,
    ledger: Ledger,
    victims: Nursery,
    rescuers: Nursery,
    unharmed: Reference,
) -> None:
    count = (await operations(made, rescuers, ledger))["sync" if trouble == "sync" else "write"]
    chance = random.Random(f"{trouble}{lasting}")
    met = 0
    for number, nth in enumerate(chance.sample(range(2, count), _QUICK)):
        scene = _another(made, ledger, number)
        met += await survive(scene, f"{trouble}:{nth}{lasting}", victims, rescuers, unharmed)
    assert met


@pytest.mark.slow
@SQLITE_RELAY
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("lasting", ["", "+"], ids=["once", "for_ever"])
async def test_a_run_survives_a_disk_failure_at_any_moment(
    made: Scene,
    trouble: Trouble,
    lasting: str,
    ledger: Ledger,
    victims: Nursery,
    rescuers: Nursery,
    unharmed: Reference,
) -> None:
    count = (await operations(made, rescuers, ledger))["sync" if trouble == "sync" else "write"]
    for nth in range(1, count + 1):
        scene = _another(made, ledger, nth)
        await survive(scene, f"{trouble}:{nth}{lasting}", victims, rescuers, unharmed)


def _another(scene: Scene, ledger: Ledger, number: int) -> Scene:
    """A session of its own in the same file, with a ledger of its own."""
    own = Ledger(ledger.folder / str(number))
    return Scene("relay", scene.database, f"{scene.session_id}-{number}", own)
