"""`ekiden worker` as a process: what it serves, its signals, and the list of workers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.engine import submit
from ekiden.sessions import Session
from ekiden.storage.sqlite import SqliteStore
from tests.acceptance.conftest import Ekiden
from tests.support.relay_team import team
from tests.support.worker_processes import Site, site


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, str(tmp_path / "s.db")) as made:
        yield made


async def say(at: Site, session_id: str, text: str) -> None:
    async with SqliteStore(Path(at.store)) as store:
        await submit(team, text, session=Session(session_id, store=store))


async def row(at: Site, session_id: str, *, taken: bool = False) -> Any:
    """The session; with `taken` once a process has it."""
    async with SqliteStore(Path(at.store)) as store:
        while True:
            found = await store.get(session_id)
            if not taken or found.owner is not None:
                return found
            await store.wait_for_change(0.1)


async def test_unfinished_sessions_are_released_when_the_worker_stops(
    at: Site, tmp_path: Path
) -> None:
    await say(at, "a", "hello hold:go")
    first = at.worker("--grace", "0.2")
    assert first.told["store"] == at.store
    assert first.told["tenants"] == ["default"]
    await row(at, "a", taken=True)
    [listed] = at.command("worker", "list")["workers"]
    assert (listed["owner"], listed["state"]) == (first.told["owner"], "working")
    first.send(signal.SIGTERM)
    assert first.line() == {"finished": 0}
    assert first.process.wait(timeout=60) == 0
    left = await row(at, "a")
    assert (left.status, left.owner) == ("ready", None)
    (tmp_path / "go").touch()
    second = at.worker("--until-idle")
    assert second.told
    assert second.line() == {"finished": 1}
    assert second.process.wait(timeout=60) == 0
    assert (await row(at, "a")).outcome == "done"
    assert at.command("worker", "list") == {"workers": [], "unserved": []}


async def test_a_worker_finishes_running_sessions_and_a_second_signal_stops_it(
    at: Site, tmp_path: Path
) -> None:
    await say(at, "a", "hello hold:go")
    patient = at.worker("--grace", "60", "--concurrency", "1")
    assert patient.told
    await row(at, "a", taken=True)
    patient.send(signal.SIGINT)
    (tmp_path / "go").touch()
    assert patient.line() == {"finished": 1}
    assert patient.process.wait(timeout=60) == 0

    await say(at, "b", "hello hold:never")
    hasty = at.worker("--grace", "600")
    assert hasty.told
    await row(at, "b", taken=True)
    hasty.send(signal.SIGTERM)
    hasty.send(signal.SIGINT)
    assert hasty.process.wait(timeout=60) == 0
    left = await row(at, "b")
    assert (left.status, left.owner) == ("ready", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "error", "words"),
    [
        (["--store", "memory:"], 2, "user.error", "`memory:` belongs to one process"),
        (["--agents", "triag"], 5, "agent.unknown", "did you mean 'triage'"),
        (["--agents", ""], 2, "user.error", "--agents names no agent"),
        (["--agents", " , "], 2, "user.error", "--agents names no agent"),
        (["--label", "a b"], 2, "user.error", "a label has up to 63 letters"),
        (["--tenant", "No"], 2, "user.error", "a tenant cannot be called"),
        (["--concurrency", "0"], 2, "cli.usage", "concurrency"),
        (["--store", "nowhere/s.db"], 7, "store.unavailable", "does not exist"),
        (["--server", "http://127.0.0.1:1"], 2, "cli.usage", "it works on a store"),
    ],
)
def test_invalid_worker_options_are_refused_with_a_message(
    ekiden: Ekiden, options: list[str], code: int, error: str, words: str
) -> None:
    ran = ekiden("worker", "--team", "tests.support.relay_team:team", "--json", *options)
    assert (ran.code, ran.error["code"]) == (code, error)
    assert words in ran.error["message"]


@pytest.mark.slow
def test_worker_and_worker_run_work_and_list_prints_a_table(ekiden: Ekiden) -> None:
    options = ("--team", "tests.support.relay_team:team", "--store", "s.db", "--until-idle")
    for command in (("worker",), ("worker", "run")):
        ran = ekiden(*command, *options, "--agents", "desk,triage", "--log", "none")
        assert (ran.code, ran.out) == (0, "")
        assert "as desk, triage; Ctrl-C ends it" in ran.err
        assert "sessions finished: 0" in ran.err
    listed = ekiden("worker", "list", "--store", "s.db")
    assert listed.out == "no worker is running; `ekiden worker` starts one\n"
    assert ekiden("worker", "list", "--store", "none.db").code == 7
