"""`ekiden serve --processes`: real processes, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.faults.processes import environment
from tests.faults.waiting import DEADLINE_S, until
from tests.support import forked


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The parent of two processes on one port, and what it printed."""
    options = ["--processes", "2", "--port", "0", "--store", "s.db", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "ekiden.cli", "serve", *options],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        children = []
        try:
            ready = json.loads(parent.stdout.readline())
            assert ready["processes"] == 2
            children = psutil.Process(parent.pid).children()
            yield parent, ready
        finally:
            parent.kill()
            for child in children:
                if child.is_running():
                    child.kill()


def children(parent: subprocess.Popen[str]) -> set[int]:
    return {each.pid for each in psutil.Process(parent.pid).children()}


def gone(pids: set[int]) -> Callable[[], bool]:
    return lambda: not any(psutil.pid_exists(pid) for pid in pids)


async def test_a_killed_process_is_replaced_while_the_others_serve(tmp_path: Path) -> None:
    with served(tmp_path) as (parent, told):
        url, person = told["url"], {"Authorization": f"Bearer {told['person_token']}"}
        before = children(parent)
        assert len(before) == 2
        for each in map(psutil.Process, before):
            assert told["person_token"] not in str([each.environ(), each.cmdline()])
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        async with httpx2.AsyncClient(base_url=f"{url}/api/v1", timeout=DEADLINE_S) as client:
            for number in range(4):
                answer = await client.post("/runs", json={"input": f"Where is order {number}?"})
                assert answer.json()["status"] == "done"
                async with httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=person) as known:
                    assert "answer" in (await known.get("/me")).json()["scopes"]
        await until(lambda: len(children(parent) - {victim}) == 2, "another one is started")
        after = children(parent)
        parent.terminate()
        assert parent.wait(DEADLINE_S) == 0
        await until(gone(after), "all have ended")


@pytest.mark.slow
async def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with served(tmp_path) as (parent, _):
        before = children(parent)
        parent.kill()
        await until(gone(before), "they have ended")


def test_options_that_processes_cannot_share_are_refused(tmp_path: Path) -> None:
    for options in (["--store", "memory:"], ["--reload"]):
        refused = forked.run(
            [sys.executable, "-m", "ekiden.cli", "serve", "--processes", "2", *options],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert refused.returncode == 2
        assert "cli.usage" in refused.stderr
