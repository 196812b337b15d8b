"""`ekiden serve` and `ekiden worker` as processes on one store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.support.forked import ForkedPopen

ROOT = Path(__file__).parents[2]
TEAM = "tests.support.relay_team:team"


class Process:
    """A command that says in a line of JSON that it is ready."""

    def __init__(self, folder: Path, store: str, *arguments: str) -> None:
        self.process = ForkedPopen(
            [sys.executable, "-m", "ekiden.cli", *arguments, "--json"],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "RELAY_FOLDER": str(folder),
                "EKIDEN_STORE": store,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._told: Any = None

    @property
    def told(self) -> Any:
        """What it said when it was ready; waits for that."""
        if self._told is None:
            self._told = self.line()
        return self._told

    def line(self) -> Any:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        return json.loads(line)

    def send(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send it a signal and wait for its end; the exit code."""
        self.send(number)
        return self.process.wait(timeout=60)

    def errors(self) -> str:
        """What an ended one wrote to standard error."""
        assert self.process.stderr is not None
        return str(self.process.stderr.read())


class Site:
    """A folder and a store on which servers and workers run."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.store = store
        self.processes: list[Process] = []

    def worker(self, *options: str, team: str = TEAM) -> Process:
        """Start one."""
        return self._start("worker", "--team", team, "--log", "none", *options)

    def server(self, *options: str, team: str = TEAM) -> Process:
        """Start one."""
        return self._start("serve", "--port", "0", "--team", team, "--log", "none", *options)

    def command(self, *arguments: str) -> Any:
        """What another command prints, as JSON."""
        started = self._start(*arguments)
        out, err = started.process.communicate(timeout=60)
        assert started.process.returncode == 0, err
        return json.loads(out)

    def _start(self, *arguments: str) -> Process:
        self.processes.append(Process(self.folder, self.store, *arguments))
        return self.processes[-1]


@contextmanager
def site(folder: Path, store: str) -> Iterator[Site]:
    """The processes are ended afterwards, whatever they do."""
    made = Site(folder, store)
    try:
        yield made
    finally:
        for each in made.processes:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait()
            for pipe in (each.process.stdout, each.process.stderr):
                if pipe is not None:
                    pipe.close()


@contextmanager
def client_of(server: Process) -> Iterator[httpx2.Client]:
    """A client of the server's API."""
    token = server.told.get("person_token")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{server.told['url']}/api/v1"
    with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
        yield client
