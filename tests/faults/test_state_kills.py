"""`kill -9` between two changes of state: what is stored always fits together."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden.core.errors import SessionNotFound
from ekiden.project.stores import open_store
from ekiden.runtime.history.session_state import shared_state
from ekiden.sessions import Session, variables_at
from tests.faults.databases import SqliteDatabase
from tests.faults.processes import ROOT, environment
from tests.faults.state_child import STEPS
from tests.faults.waiting import DEADLINE_S
from tests.support import forked

KILLS = [
    ("run.begin.before_commit", 1),
    ("turn.tool.after_call", 1),
    ("turn.tool.after_call", 3),
    ("turn.model.before_call", 2),
    ("turn.model.after_call", 4),
    ("run.finish.before_commit", 1),
]
QUICK = {("turn.tool.after_call", 3), ("turn.model.before_call", 2)}


def _lived(url: str, fault: str = "") -> int:
    ended = forked.run(
        [sys.executable, "-m", "tests.faults.state_child", url],
        cwd=ROOT,
        env=environment(fault),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )
    return ended.returncode


async def _counted(url: str) -> int:
    """How far it came; the state after every event fits what is stored of all scopes."""
    async with open_store(url) as store:
        session = Session("s", store=store)
        try:
            row = await session.row()
        except SessionNotFound:
            return 0
        events = await session.events()
        number = int(row.variables.get("n", 0))
        assert variables_at(events, row.seq) == row.variables
        for scope, owner in (("user", "ada"), ("app", "shop")):
            shared = await shared_state(store, scope, owner)  # type: ignore[arg-type]
            assert [each.value for each in shared.values()] == ([number] if number else [])
        seen = [variables_at(events, event.seq) for event in events]
        numbers = [variables.get("n", 0) for variables in seen]
        assert numbers == sorted(numbers)
        assert {0, *numbers} == set(range(number + 1))
        for variables, n in zip(seen, numbers, strict=True):
            assert variables == ({"n": n, "run:n": n, f"old{n}": True} if n else {})
        return number


@pytest.mark.parametrize(
    ("point", "nth"),
    [kill if kill in QUICK else pytest.param(*kill, marks=pytest.mark.slow) for kill in KILLS],
)
async def test_the_state_at_every_step_matches_the_events_after_a_kill(
    tmp_path: Path, point: str, nth: int
) -> None:
    database = SqliteDatabase(tmp_path / "state.db")
    url = database.url
    assert _lived(url, f"{point}:{nth}") == -signal.SIGKILL
    killed_at = await _counted(url)
    await database.expire_lease("s")
    assert killed_at < STEPS or point == "run.finish.before_commit"
    assert _lived(url) == 0
    assert await _counted(url) == STEPS
