"""Starting the processes of a test and learning what becomes of them; every wait has a deadline."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from tests.faults.child import Job
from tests.faults.waiting import DEADLINE_S

ROOT = Path(__file__).resolve().parents[2]


def environment(fault: str = "") -> dict[str, str]:
    """The environment of a child, with one fault point armed; killed children are not measured."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("EKIDEN_", "COVERAGE_", "COV_CORE_"))
    }
    path = os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, sys.path)]))
    return {**inherited, "PYTHONPATH": path, "EKIDEN_TESTING": "1", "EKIDEN_FAULT": fault}


def start(job: Job, *, fault: str = "", **env: str) -> subprocess.Popen[bytes]:
    """A process of its own from the very beginning; what it prints goes to the ledger's folder."""
    with Path(job.folder, "output.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.faults.child", job.to_json()],
            cwd=ROOT,
            env={**environment(fault), **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


class Child:
    """A process that a nursery gave birth to."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid = pid
        self._nursery = nursery

    def wait(self) -> int:
        """Its exit code, negative for the signal that killed it."""
        news = self._nursery.hear()
        assert "exit" in news, f"expected an end, heard {news}"
        return int(news["exit"])

    def kill_after(self, seconds: float) -> int:
        """Its exit code: it is killed unless it ends by itself before."""
        if not self._nursery.hears_within(seconds):
            self._nursery.kill_child()
        return self.wait()

    def wait_until_stopped(self) -> None:
        """Return when it was stopped by a signal; fail if it ends instead."""
        assert self._nursery.hear() == {"stopped": True}

    def stop(self) -> None:
        """Let it run no further, wherever it is."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        os.kill(self.pid, signal.SIGCONT)


class Nursery:
    """One process that has imported everything, from which others fork, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._news = self._process.stdin, self._process.stdout
        self._child: int | None = None

    def start(self, job: Job, *, fault: str = "") -> Child:
        """A child that does the job."""
        self._bury()
        order = {"job": asdict(job), "fault": fault}
        self._orders.write(json.dumps(order).encode() + b"\n")
        pid = self.hear()["pid"]
        self._child = pid
        return Child(self, pid)

    def run(self, job: Job, *, fault: str = "") -> tuple[int, int]:
        """The pid of a child that did the job, and its exit code."""
        child = self.start(job, fault=fault)
        return child.pid, child.wait()

    def kill_child(self) -> None:
        """Kill the child, unless it has just ended by itself."""
        with suppress(ProcessLookupError):
            if self._child is not None:
                os.kill(self._child, signal.SIGKILL)

    def _bury(self) -> None:
        """Kill every process that a failed test left behind."""
        self.kill_child()
        while self._child is not None:
            self.hear()

    def hear(self) -> dict[str, Any]:
        """The next news of the child."""
        heard = self.hears_within(DEADLINE_S)
        assert heard, f"child {self._child} neither ended nor stopped within {DEADLINE_S:g} s"
        line = self._news.readline()
        assert line, "the nursery is dead; its last words are on stderr"
        news: dict[str, Any] = json.loads(line)
        if "exit" in news:
            self._child = None
        return news

    def hears_within(self, seconds: float) -> bool:
        """Whether there is news of the child, at the latest after so long."""
        ready, _, _ = select.select([self._news], [], [], seconds)
        return bool(ready)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bury()
        self._orders.close()
        self._news.close()
        self._process.wait(DEADLINE_S)
