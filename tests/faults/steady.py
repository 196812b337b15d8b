"""Processes that go on whatever happens around them: ``python -m tests.faults.steady JOB``."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from ekiden.core.errors import LeaseLost, SessionBusy, StoreUnavailable
from ekiden.engine import Worker, submit
from ekiden.project.stores import open_store
from ekiden.sessions import Session
from ekiden.storage.base import Store
from tests.faults.processes import ROOT, environment
from tests.faults.scenarios import KNOWN
from tests.faults.waiting import DEADLINE_S, until
from tests.faults.world import World
from tests.support.forked import ForkedPopen

T = TypeVar("T")

_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the process is to do."""

    task: Literal["work", "submit"]
    store: str
    folder: str
    """Of the ledger."""
    scenario: str = "relay"
    lease_s: float = 2.0
    prefix: str = "s"
    """How the names of the sessions begin that it submits."""
    most: int = 1_000_000
    """How many it submits, unless there is a file ``enough`` before."""
    hang_at: str = ""
    """As `World` has it."""


def start(job: Job, **env: str) -> subprocess.Popen[bytes]:
    """The process; what it prints goes to the ledger's folder."""
    with Path(job.folder, "output.txt").open("ab") as output:
        return ForkedPopen(
            [sys.executable, "-m", "tests.faults.steady", json.dumps(asdict(job))],
            cwd=ROOT,
            env={**environment(), **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def dismiss(folder: Path, *processes: subprocess.Popen[bytes]) -> None:
    """Let processes that work come to their end, and see that they do."""
    (folder / "stop").touch()
    codes = [process.wait(DEADLINE_S) for process in processes]
    assert set(codes) <= {0}, (folder / "output.txt").read_text()[-4000:]


async def _work(job: Job, store: Store, world: World) -> None:
    """Be a worker until there is a file ``stop``: nothing else ends it."""
    scenario = KNOWN[job.scenario]
    config = replace(scenario.config(world), lease_s=job.lease_s)
    worker = Worker(store, scenario.team(world), concurrency=8, run_config=config)
    working = asyncio.create_task(worker.run())
    world.ledger.note("worker")
    stopping = asyncio.create_task(_stop(worker, Path(job.folder, "stop")))
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await working
    world.ledger.note("worked", finished=worker.finished)


async def _stop(worker: Worker, file: Path) -> None:
    """Stop the worker when there is such a file, however long that takes."""
    while not file.exists():  # noqa: ASYNC110 another process makes it
        await asyncio.sleep(_PAUSE_S)
    worker.stop()


async def _submit(job: Job, store: Store, world: World) -> None:
    """Leave one session after the other to the workers; each is noted once it is acknowledged."""
    enough = Path(job.folder, "enough")
    await until(Path(job.folder, "go").exists, "somebody says go")
    for number in range(job.most):
        if enough.exists():
            break
        name = f"{job.prefix}{number}"
        await _leave(job, world, Session(name, store=store))
        world.ledger.note("acknowledged", session=name)
        await asyncio.sleep(_PAUSE_S)


async def _leave(job: Job, world: World, session: Session) -> None:
    """Store a message once, as a careful caller does: not told whether it is stored, it looks."""
    scenario = KNOWN[job.scenario]
    config = replace(scenario.config(world), lease_s=job.lease_s)
    text = f"please book {session.session_id}"
    while True:
        try:
            await submit(scenario.team(world), text, session=session, run_config=config)
            return
        except StoreUnavailable as exc:
            world.ledger.note("refused", code=exc.code, text=str(exc))
        except (SessionBusy, LeaseLost):
            pass  # We held it when we were cut off, or somebody works on it already.
        if await _patiently(session.events, world):
            return


async def _patiently(call: Callable[[], Awaitable[T]], world: World) -> T:
    """What the call gives once the store answers."""
    while True:
        try:
            return await call()
        except StoreUnavailable as exc:
            world.ledger.note("refused", code=exc.code, text=str(exc))
            await asyncio.sleep(_PAUSE_S)


_TASKS: dict[str, Callable[[Job, Store, World], Awaitable[Any]]] = {
    "work": _work,
    "submit": _submit,
}


async def _do(job: Job) -> None:
    async with open_store(job.store) as store:
        await _TASKS[job.task](job, store, World(Path(job.folder), hang_at=job.hang_at))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    asyncio.run(_do(Job(**json.loads(sys.argv[1]))))
