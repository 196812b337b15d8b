"""Clocks, steps and processes for tests of the SQLite store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw

from ekiden.core.events import Event
from ekiden.storage.base import Commit, SessionPatch
from ekiden.storage.sqlite.connection import LeaseClock
from tests.support.forked import ForkedPopen

ROOT = Path(__file__).resolve().parents[2]
LEASES_RUN_OUT = "update sessions set lease_until = 0 where owner is not null"
"""To be executed when the process that had the sessions is dead."""


class MovableMilliseconds:
    """A lease clock that moves when a test says so."""

    def __init__(self, *, boot: str = "boot-1", ms: int = 1_000_000) -> None:
        self.ms = ms
        self.clock = LeaseClock(boot=boot, now_ms=lambda: self.ms)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.ms += int(seconds * 1000)


def one_event(session_id: str, seq: int, **fields: Any) -> Commit:
    """A step that says one thing."""
    said = Event(session_id=session_id, seq=seq, type="message", at_us=seq)
    return Commit(patch=SessionPatch(), events=(said,), **fields)


def execute(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Meddle with the file behind the store's back."""
    db = apsw.Connection(str(path))
    db.set_busy_timeout(60_000)  # Another process may be writing just now.
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def start_child(*arguments: str, fault: str = "") -> subprocess.Popen[str]:
    """A real process that runs `sqlite_child` and is told by lines, and tells by lines."""
    return ForkedPopen(
        [sys.executable, "-m", "tests.support.sqlite_child", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "EKIDEN_TESTING": "1",
            "EKIDEN_FAULT": fault,
        },
    )
