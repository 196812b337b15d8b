"""Many sessions at once, and what must be true of all of them in the end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import SessionFilter, Store
from tests.faults.aftermath import check_audit
from tests.faults.databases import Database
from tests.faults.evidence import check_log, read
from tests.faults.ledger import Ledger
from tests.faults.steady import Job, dismiss, start
from tests.faults.waiting import DEADLINE_S, until

STEPS = ["1.1.m", "1.1.h", "1.2.m", "1.2.t0", "1.3.m", "1.3.h", "1.4.m"]
"""Of the relay."""
_LOOK_EVERY_S = 0.05


class Crowd:
    """Workers and processes that submit messages, on one store."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        self.url = url
        self.ledger = ledger
        self.workers: list[Popen[bytes]] = []
        self.submitters: list[Popen[bytes]] = []

    def job(self, task: Any, **fields: Any) -> Job:
        """Something for a process to do."""
        return Job(task=task, **{"store": self.url, "folder": str(self.ledger.folder), **fields})

    def work(self, *, env: Mapping[str, str] | None = None, **fields: Any) -> Popen[bytes]:
        """A worker."""
        self.workers.append(start(self.job("work", **fields), **(env or {})))
        return self.workers[-1]

    def submit(self, **fields: Any) -> Popen[bytes]:
        """One who leaves sessions to the workers."""
        self.submitters.append(start(self.job("submit", **fields)))
        return self.submitters[-1]

    async def begin(self) -> None:
        """Give the word as soon as all workers are there."""
        here = len(self.workers)
        await until(lambda: len(self.ledger.lines("worker")) == here, "the workers are there")
        (self.ledger.folder / "go").touch()

    async def until(self, fact: Callable[[], bool], what: str) -> None:
        """Return when it is true; fail as soon as one of them has given up."""
        deadline = time.monotonic() + DEADLINE_S
        while not fact():
            gone = [each.pid for each in (*self.workers, *self.submitters) if each.poll()]
            assert not gone, (self.ledger.folder / "output.txt").read_text()[-4000:]
            assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s in vain until {what}"
            # A look at a long ledger takes time that they could use.
            await asyncio.sleep(_LOOK_EVERY_S)

    async def progress(self, most: int) -> None:
        """Return when so much more has been done than now."""
        enough = self.done + most
        await self.until(lambda: self.done >= enough, "they go on")

    @property
    def done(self) -> int:
        """How many effects there are."""
        return len(os.listdir(self.ledger.folder / "effects"))

    async def end(self, database: Database) -> list[str]:
        """Let all that is under way come to its end; the sessions that were acknowledged."""
        (self.ledger.folder / "enough").touch()
        for process in self.submitters:
            assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0
        names = [line["session"] for line in self.ledger.lines("acknowledged")]
        async with database.open() as store:
            await _all_ended(store)
        await asyncio.to_thread(dismiss, self.ledger.folder, *self.workers)
        return names

    def kill(self) -> None:
        """Kill every process that is left."""
        for process in (*self.workers, *self.submitters):
            process.kill()
            process.wait(DEADLINE_S)


@contextmanager
def crowd(url: str, ledger: Ledger) -> Iterator[Crowd]:
    """A crowd for the time of the body."""
    found = Crowd(url, ledger)
    try:
        yield found
    finally:
        found.kill()


async def _all_ended(store: Store) -> None:
    """Return when no session is left to anybody."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                if not (await store.list(SessionFilter(status="ready"), limit=1)).sessions:
                    return
                await store.wait_for_change(0.1)
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def check_crowd(database: Database, ledger: Ledger, names: Sequence[str]) -> None:
    """Each session has its answer and one owner at every point of its log, each step is there once,
    each effect happened once, and the audit is whole."""
    async with database.open() as store:
        for name in names:
            record = await read(store, name)
            assert record is not None, f"{name} was acknowledged, and is lost"
            check_log(record, entry="triage")
            row = record.row
            assert (row.outcome, row.owner, row.agent) == ("done", None, "billing")
            assert [event.step for event in record.events if event.step] == STEPS
            await check_audit(store, name)
    assert ledger.effects() == sorted(names)
