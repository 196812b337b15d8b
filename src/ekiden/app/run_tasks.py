"""The tasks of a process that work on runs, by session and number."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from ekiden.engine.station import SessionTask
from ekiden.runtime import Circumstances

_LEAVING_S = 2.0
"""How long what was cancelled at the end may take; then the process ends without it."""


@dataclass(slots=True, eq=False)
class RunTask(SessionTask):
    """Somebody who works on a run, or waits until the session is free for it."""

    session_id: str = ""
    number: int | None = None
    """Of the run; `None` until its message is stored."""


class RunTasks:
    """Owns the tasks: none of them is stopped because whoever began it went away."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], RunTask] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(
        self, session_id: str, around: Circumstances, work: Coroutine[Any, Any, None]
    ) -> RunTask:
        """Let `work` go on by itself."""
        task = asyncio.create_task(work)
        found = self._tasks[task] = RunTask(task, around, session_id=session_id)
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return found

    def find(self, session_id: str, number: int) -> RunTask | None:
        """Who works on the run."""
        for each in self._tasks.values():
            if each.session_id == session_id and each.number == number:
                return each
        return None

    def of_session(self, session_id: str) -> RunTask | None:
        """Who works on the session's run, once its message is stored."""
        for each in self._tasks.values():
            if each.session_id == session_id and each.number is not None:
                return each
        return None

    async def drain(self, grace_s: float) -> None:
        """Wait for all, and cancel those that are not over in time; code that does not let go then
        is not waited for."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_LEAVING_S)
