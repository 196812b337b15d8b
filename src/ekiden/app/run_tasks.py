"""The tasks of a process that work on runs, by session and number."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from ekiden.runtime import Circumstances

_LEAVING_S = 2.0
"""How long what was cancelled at the end may take; then the process ends without it."""
_PATIENCE_S = 5.0
"""How long one waits for code that was cancelled and does not end."""
_AGAIN_S = 30.0
"""After so long it is cancelled once more: before, it may be tidying up."""


@dataclass(slots=True, eq=False)
class RunTask:
    """Somebody who works on a run, or waits until the session is free for it."""

    session_id: str
    around: Circumstances
    task: asyncio.Task[None]
    number: int | None = None
    """Of the run; `None` until its message is stored."""
    cancelled_at: float | None = None
    """In the time of the loop; when it was told to stop the last time."""


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
        found = self._tasks[task] = RunTask(session_id, around, task)
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


async def stop(found: RunTask, *, patience_s: float | None = None) -> bool:
    """Stop it; the run stays as it is, and somebody has to resume it.

    Whether it ended within `patience_s` seconds, or five.
    """
    found.around.left_as = "idle"
    now = asyncio.get_running_loop().time()
    if found.cancelled_at is None or now - found.cancelled_at >= _AGAIN_S:
        found.cancelled_at = now
        found.task.cancel()
    patience_s = _PATIENCE_S if patience_s is None else patience_s
    done, _ = await asyncio.wait({found.task}, timeout=patience_s)
    return bool(done)
