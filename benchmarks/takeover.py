"""How long a session stands still when its worker is killed: prints JSON.

    python benchmarks/takeover.py [--kills 20] [--leases 2 5] [--store PATH|postgresql://…]

Three worker processes share a store. A session takes a step every few milliseconds, each of which
renews its lease; its worker is killed with SIGKILL at a random moment, and the time until another
one has stored the next step is measured. Workers on the same host notice that a process is dead:
the time should be at most a second and a half. Workers that take each other for processes of other
hosts wait for the lease: it should be at most as much more. Both hold on a machine that has nothing
else to do: the longest pause between two looks of the observer, who looks every few milliseconds,
tells how far it has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ekiden import Agent, CodeContext, RunConfig, Session, Team, function_tool
from ekiden.core import values
from ekiden.engine import Worker, submit
from ekiden.project import open_store
from ekiden.storage.base import SessionRow, Store

_ALLOWED_S = 1.5
_WORKERS = 3
_STEP_S = 0.02
_POLL_S = 0.005
_PATIENCE_S = 60.0


@function_tool
async def pace(n: int, flag: str) -> bool:
    """Take a step; tells whether it was the last, as the code must not look by itself."""
    await asyncio.sleep(_STEP_S)
    return os.path.exists(flag)  # noqa: ASYNC240  # A look at a local file.


async def walk(ctx: CodeContext[Any]) -> str:
    """Take steps until somebody puts a file of the session's name."""
    n = 0
    while not await ctx.call("pace", n=n, flag=ctx.text):
        n += 1
    return "there"


TEAM = Team(Agent("walker", run=walk, tools=[pace]))


def main() -> None:
    """Print the figures of each lease."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--leases", type=float, nargs="+", default=[2.0, 5.0])
    options.add_argument("--store", help="a store; else a new SQLite file")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--work", type=float, metavar="LEASE", help=argparse.SUPPRESS)
    options.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work is not None:
        if given.apart:
            values._machine = lambda pid: os.urandom(8).hex()
        asyncio.run(_work(given.store, given.work))
        return
    with tempfile.TemporaryDirectory() as folder:
        url = given.store or str(Path(folder) / "takeover.db")
        chance = random.Random(given.seed)
        figures = [
            asyncio.run(_measured(url, lease_s, given.kills, Path(folder), chance, is_apart))
            for is_apart in (False, True)
            for lease_s in given.leases
        ]
    is_good = all(each["most_over_s"] <= _ALLOWED_S for each in figures)
    kind = "postgresql" if url.startswith("postgresql:") else "sqlite"
    print(json.dumps({"store": kind, "ok": is_good, "takeovers": figures}, indent=1))


async def _work(url: str, lease_s: float) -> None:
    async with open_store(url) as store:
        print("up", flush=True)
        await Worker(store, TEAM, run_config=RunConfig(lease_s=lease_s)).run()


async def _measured(
    url: str, lease_s: float, kills: int, folder: Path, chance: random.Random, is_apart: bool
) -> dict[str, Any]:
    workers: dict[int, subprocess.Popen[bytes]] = {}
    waited: list[float] = []
    _pauses.clear()
    try:
        async with open_store(url) as store:
            for _ in range(kills):
                while len(workers) < _WORKERS:
                    started = await _started(url, lease_s, is_apart)
                    workers[started.pid] = started
                flag = folder / os.urandom(6).hex()
                session = Session(flag.name, store=store)
                config = RunConfig(lease_s=lease_s)
                await submit(TEAM, str(flag), session=session, run_config=config)
                waited.append(await _taken_over(store, flag.name, workers, chance))
                flag.touch()
                await _until(store, flag.name, lambda row: row.outcome == "done")
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    over = [each - lease_s * is_apart for each in waited]
    return {
        "workers": "on other hosts" if is_apart else "on the same host",
        "lease_s": lease_s,
        "kills": kills,
        "median_s": round(statistics.median(waited), 3),
        "most_s": round(max(waited), 3),
        "most_over_s": round(max(over), 3),
        "longest_pause_of_the_observer_s": round(max(_pauses), 3),
    }


def _start(url: str, lease_s: float, is_apart: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--store", url, "--work", str(lease_s)]
    command += ["--apart"] * is_apart
    return subprocess.Popen(command, stdout=subprocess.PIPE)


async def _started(url: str, lease_s: float, is_apart: bool) -> subprocess.Popen[bytes]:
    """A worker that is up."""
    worker = _start(url, lease_s, is_apart)
    assert worker.stdout is not None
    await asyncio.to_thread(worker.stdout.readline)
    return worker


async def _taken_over(
    store: Store, name: str, workers: dict[int, subprocess.Popen[bytes]], chance: random.Random
) -> float:
    """Kill the worker that has the session; the seconds until another one stored a step."""
    begun = await _until(store, name, lambda row: row.owner is not None and row.seq > 5)
    await asyncio.sleep(chance.uniform(0.0, 1.0))
    pid = next(each for each in workers if f"-{each}-" in (begun.owner or ""))
    owner = workers.pop(pid)
    owner.kill()
    killed = time.monotonic()
    owner.wait()
    left = await store.get(name)
    await _until(store, name, lambda row: row.epoch > left.epoch and row.seq > left.seq)
    return time.monotonic() - killed


_pauses: list[float] = []
"""Between two looks of this process, which tells how busy the machine is with other things."""


async def _until(store: Store, name: str, is_so: Callable[[SessionRow], bool]) -> SessionRow:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            looked = time.monotonic()
            row = await store.get(name)
            if is_so(row):
                return row
            await store.wait_for_change(_POLL_S)
            _pauses.append(time.monotonic() - looked)


if __name__ == "__main__":
    main()
