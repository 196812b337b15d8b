"""Gives birth to the processes of a test: a fork with everything imported costs milliseconds.

``python -m tests.faults.nursery`` reads one job a line, forks for it, and tells what becomes of the
child, one line each: its pid, whenever it is stopped, and how it ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import asyncpg
import pydantic

import ekiden.storage.postgres
import ekiden.storage.sqlite
from ekiden.core import faults
from tests.faults.child import Job, execute
from tests.faults.scenarios import ALL, ASKS

_FOR_ALL_CHILDREN = (apsw, asyncpg, pydantic, ekiden.storage.postgres, ekiden.storage.sqlite)
"""Imported before the fork."""


def main() -> None:
    """Serve until no child is left."""
    _warm_up()
    while line := sys.stdin.readline():
        _care_for(json.loads(line))


def _warm_up() -> None:
    """Do once, for all children, what costs time when it is done first."""
    with TemporaryDirectory() as folder:
        for name in (*ALL, *ASKS):
            execute(Job(scenario=name, store="memory:", folder=folder))
    gc.collect()
    gc.freeze()


def _care_for(order: dict[str, Any]) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(_live(Job(**order["job"]), order["fault"]))
    _tell(pid=pid)
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            _tell(exit=os.waitstatus_to_exitcode(status))
            return
        _tell(stopped=True)


def _live(job: Job, fault: str) -> int:
    try:
        folder = Path(job.folder)
        folder.mkdir(parents=True, exist_ok=True)
        _redirect(folder / f"output-{os.getpid()}.txt")
        os.environ["EKIDEN_FAULT"] = fault
        importlib.reload(faults)
        return execute(job)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1


def _redirect(output: Path) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(nowhere, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _tell(**news: Any) -> None:
    print(json.dumps(news), flush=True)


if __name__ == "__main__":
    main()
