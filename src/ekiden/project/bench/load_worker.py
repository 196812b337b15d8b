"""One worker process of `ekiden bench load`: `python -m ekiden.project.bench.load_worker STORE N`.

It works when it is told `go` and ends when its input does; then it tells what it did, as JSON.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

from ekiden.core.values import dumps
from ekiden.engine import Worker
from ekiden.project.bench.teams import Desk, desk
from ekiden.project.stores import open_store
from ekiden.storage.base import Claim, Commit, Store

READY = "ready"
GO = "go"


class Counted:
    """Counts the commits that a store takes."""

    def __init__(self, store: Store) -> None:
        self.commits = 0
        self._commit = store.commit
        # The roles of a store are its own methods: this one is put in front of it.
        vars(store)["commit"] = self.commit

    async def commit(self, claim: Claim, commit: Commit) -> None:
        """Store it, and count it if it was stored."""
        await self._commit(claim, commit)
        self.commits += 1


async def work(url: str, concurrency: int) -> dict[str, Any]:
    """Be a worker until the input ends; what was done."""
    loop = asyncio.get_running_loop()
    model = Desk()
    async with open_store(url) as store:
        counted = Counted(store)
        worker = Worker(store, desk(model), concurrency=concurrency)
        print(READY, flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        began = time.process_time()
        running = asyncio.create_task(worker.run())
        await loop.run_in_executor(None, sys.stdin.read)
        worker.stop()
        await running
        return {
            "outcomes": worker.finished,
            "commits": counted.commits,
            "model_calls": model.calls,
            "cpu_s": time.process_time() - began,
        }


def main() -> None:
    """Read the arguments, work, tell."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    print(dumps(asyncio.run(work(sys.argv[1], int(sys.argv[2])))), flush=True)


if __name__ == "__main__":
    main()
