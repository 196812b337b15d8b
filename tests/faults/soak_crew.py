"""The processes of a soak, and the process that kills them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.processes import ROOT, environment
from tests.faults.waiting import DEADLINE_S, until
from tests.support.forked import ForkedPopen
from tests.support.server import Server

Command = Sequence[str]


@dataclass(slots=True)
class Toll:
    """What was done to the workers."""

    killed: int = 0
    stopped: int = 0
    """By SIGSTOP, for longer than a lease, and woken again."""
    fell: list[int] = field(default_factory=list)
    """Exit codes of workers that ended without a kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def is_up(self) -> bool:
        """Whether it has begun to work, which it says."""
        return self.output.stat().st_size > 0


class Crew:
    """So many processes of one command, each with a file for its output."""

    def __init__(
        self, command: Command, *, size: int, folder: Path, extra: Mapping[str, str], name: str
    ) -> None:
        self._command = command
        self._size = size
        self._folder = folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._started = 0
        self._environment = {**environment(), **extra}
        self._members: list[Member] = []
        self._asleep: dict[int, float] = {}
        """By pid, when stopped processes are to be continued."""
        self.toll = Toll()

    def __enter__(self) -> Self:
        self._members = [self._start() for _ in range(self._size)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self._members:
            member.process.kill()
            member.process.wait(DEADLINE_S)

    def _start(self) -> Member:
        self._started += 1
        path = self._folder / f"{self._started}.txt"
        with path.open("wb") as output:
            process = ForkedPopen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return Member(process=process, output=path)

    async def until_up(self) -> None:
        """Return when all of them work."""
        await until(lambda: all(member.is_up for member in self._members), "all workers are up")

    def replace_fallen(self) -> None:
        """Start others for those that ended by themselves."""
        for place, member in enumerate(self._members):
            code = member.process.poll()
            if code is not None:
                self.toll.fell.append(code)
                self._members[place] = self._start()

    def kill(self, chance: random.Random) -> None:
        """Kill one that works with SIGKILL, if any does, and start another in its place."""
        up = [place for place, member in enumerate(self._members) if member.is_up]
        if not up:
            return
        place = chance.choice(up)
        process = self._members[place].process
        process.kill()
        process.wait(DEADLINE_S)
        self._asleep.pop(process.pid, None)
        self.toll.killed += 1
        self._members[place] = self._start()

    def put_to_sleep(self, chance: random.Random, *, seconds: float) -> None:
        """Stop one that works with SIGSTOP, unless all others sleep."""
        awake = [each for each in self._members if each.process.pid not in self._asleep]
        up = [member.process.pid for member in awake if member.is_up]
        if len(awake) < 2 or not up:
            return
        pid = chance.choice(up)
        os.kill(pid, signal.SIGSTOP)
        self._asleep[pid] = time.monotonic() + seconds
        self.toll.stopped += 1

    def wake(self, *, all_of_them: bool = False) -> None:
        """Wake those that slept long enough."""
        for pid, wake_at in list(self._asleep.items()):
            if all_of_them or time.monotonic() >= wake_at:
                os.kill(pid, signal.SIGCONT)
                del self._asleep[pid]

    async def leave(self) -> list[int]:
        """Ask all of them to end with SIGTERM; their exit codes."""
        self.wake(all_of_them=True)
        processes = [member.process for member in self._members]
        for process in processes:
            if process.poll() is None:
                process.terminate()
        return [await asyncio.to_thread(process.wait, DEADLINE_S) for process in processes]


async def haunt(
    crew: Crew,
    *,
    seconds: float,
    lease_s: float,
    zombies: bool,
    chance: random.Random,
    every_s: tuple[float, float] = (0.2, 2.0),
) -> None:
    """Kill a random member now and then; with `zombies`, stop some instead, for longer than their
    leases."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await asyncio.sleep(min(chance.uniform(*every_s), max(deadline - time.monotonic(), 0)))
        crew.wake()
        crew.replace_fallen()
        if zombies and chance.random() < 0.25:
            crew.put_to_sleep(chance, seconds=lease_s + chance.uniform(0.2, 2.0))
        else:
            crew.kill(chance)
    crew.wake(all_of_them=True)


async def kill_database(server: Server, *, seconds: float, chance: random.Random) -> int:
    """Kill PostgreSQL with SIGKILL every 3 to 8 seconds, and start it again; returns how often."""
    deadline, times = time.monotonic() + seconds, 0
    while (pause_s := chance.uniform(3.0, 8.0)) < deadline - time.monotonic():
        await asyncio.sleep(pause_s)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(chance.uniform(0.2, 0.8))
        await asyncio.to_thread(server.start)
        times += 1
    return times


def python(module: str, *arguments: str) -> Command:
    """The command that runs a module."""
    return [sys.executable, "-m", module, *arguments]
