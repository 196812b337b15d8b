"""Run tasks of this process, and the cancellation of runs that no process works on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import SessionBusy, UnknownAgent
from ekiden.core.runs import Run
from ekiden.engine.store_worker import SessionTask
from ekiden.runtime import RunOptions
from ekiden.runtime.questions.cancel_question import ask_to_stop, take_back
from ekiden.runtime.state.state import RunState
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionRow, Store

_LEAVING_S = 2.0
"""How long what was cancelled at the end may take; then the process ends without it."""
_PATIENCE_S = 5.0
"""How long one waits for another process to stop a run."""
_LOOK_EVERY_S = 0.25


@dataclass(slots=True, eq=False)
class RunTask(SessionTask):
    """Somebody who works on a run, or waits until the session is free for it."""

    session_id: str = ""
    number: int | None = None
    """Of the run; `None` until its message is stored."""
    run: RunState | None = None
    """As long as the run is worked on, and afterwards."""
    ended: Run | None = None
    """The record of a run that was brought to its end here, if all of it is known."""


class RunTasks:
    """Owns the tasks: none of them is stopped because whoever began it went away."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], RunTask] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(
        self, session_id: str, options: RunOptions, work: Coroutine[Any, Any, None]
    ) -> RunTask:
        """Let `work` go on by itself."""
        task = asyncio.create_task(work)
        found = self._tasks[task] = RunTask(task, options, session_id=session_id)
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return found

    def current(self) -> RunTask:
        """Who runs now, in its own task."""
        task = asyncio.current_task()
        assert task is not None
        return self._tasks[task]

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


async def is_stopped(
    store: Store,
    session_id: str,
    number: int,
    stop_suspended: Callable[[str], Awaitable[None]],
    *,
    began: float,
) -> bool:
    """Stop the run if nobody has it, or ask the process that has it; whether it is stopped then.

    If its owner dies or lets go of it meanwhile, `stop_suspended` stops it here. If nobody does in
    time, the request stays in the store until somebody has seen to it. The time is that since
    `began`, as the loop tells it.
    """
    clock = asyncio.get_running_loop()
    deadline = began + _PATIENCE_S
    has_asked = False
    while True:
        row = await store.get(session_id)
        if not _is_over(row, number) and (row.owner is None or not has_asked):
            with suppress(SessionBusy, UnknownAgent):
                await stop_suspended(session_id)
                row = await store.get(session_id)
        if _is_over(row, number):
            if has_asked:
                await take_back(store, session_id)
            return True
        if not has_asked:
            has_asked = True
            await ask_to_stop(store, session_id, number)
            continue
        left_s = deadline - clock.time()
        if left_s <= 0:
            return False
        await store.wait_for_change(min(left_s, _LOOK_EVERY_S))


def _is_over(row: SessionRow, number: int) -> bool:
    """Whether nobody works on the session's run of that number, and nobody will by himself."""
    return run_number(row) != number or row.status == "idle"
