"""Detects sessions that wait for each other.

Code of a run may wait for another session: it calls `Runner.run` for a session that is busy, or
asks an agent. If the other session waits for the first one, directly or through further sessions,
both would wait until their timeouts. Then the wait that closes the circle fails.

A wait counts only if the run cannot end before it. Code may also start a run in a task of its own
and never await it: this is no wait, so the awaiting tasks are followed from the task that would
wait to the task of the run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from ekiden.core.current_agent import LOGGED
from ekiden.core.errors import SessionNotFound
from ekiden.core.errors.messages import DeadlockError
from ekiden.core.values import new_id
from ekiden.runtime.loop.live_runs import live_run
from ekiden.runtime.state.cursor import open_questions
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import DocumentWrite, SessionRow, Store
from ekiden.tools.under_way import waiting_task

_WAITS = "sessions.waits"
"""The collection of the waits of running sessions, for other processes."""
_MAX_SESSIONS = 1000
_Caller: TypeAlias = "tuple[RunState, asyncio.Task[Any] | None]"


def caller() -> _Caller | None:
    """The run whose code is running, and the task that waits for the current thread, if any."""
    run = LOGGED.get()
    return (run, waiting_task()) if isinstance(run, RunState) else None


@asynccontextmanager
async def waiting_for(
    store: Store, session_id: str, *, checks: bool = False
) -> AsyncIterator[SessionWait]:
    """Note, during the ``with`` block, that the running code waits for the session. Raises
    `DeadlockError` if the session waits for this code. With `checks`, the block calls
    `SessionWait.check` again and again."""
    wait = SessionWait(store, session_id, checks=checks)
    try:
        await wait.check()
        yield wait
    finally:
        await wait.end()


class SessionWait:
    """The wait of the running code for a session."""

    def __init__(self, store: Store, session_id: str, *, checks: bool) -> None:
        self._store, self._session_id, self._checks = store, session_id, checks
        self._caller = caller()
        self._key = ""
        self._noted: list[str] = []

    @property
    def is_in_a_run(self) -> bool:
        """Whether the waiting code is code of a run. Only then `check` can find a circle."""
        return self._caller is not None

    async def check(self) -> None:
        """Raise `DeadlockError` if the session waits for the runs that wait for this code."""
        if self._caller is None:
            return
        waiting = await self._waiting()
        if not waiting:
            return
        await self._note(waiting)
        circle = await self._circle([run_id for run_id, _ in waiting])
        if circle is not None:
            raise DeadlockError.of_sessions(circle)

    async def end(self) -> None:
        """Forget the wait."""
        if self._noted:
            await self._store.write_documents(
                [DocumentWrite(collection=_WAITS, key=key, body=None) for key in self._noted]
            )

    async def _waiting(self) -> list[tuple[str, int]]:
        """The sessions that cannot continue before this code, with their epochs: first the session
        whose code waits, then the session that waits for this one, and so on."""
        found: dict[str, int] = {}
        run = _awaiting(self._caller, asyncio.current_task())
        while run is not None and run.store is self._store and run.session_id not in found:
            found[run.session_id] = run.epoch
            outer = _awaiting(run.options.caller, run.driver or run.task)
            run = outer or await self._asking(run)
        return list(found.items())

    async def _asking(self, run: RunState) -> RunState | None:
        """The run in this process that asked the run, and waits for its answer."""
        asker = live_run(self._store, str(run.meta.get("asked_in")))
        row = None if asker is None else await _row(self._store, asker.session_id)
        return asker if row is not None and run.session_id in _asked(row) else None

    async def _note(self, waiting: Sequence[tuple[str, int]]) -> None:
        """Store the waits, so that other processes find a circle that they close."""
        if self._noted:
            return
        self._key = new_id("wait")
        writes = [
            DocumentWrite(
                collection=_WAITS,
                key=f"{session_id}/{self._key}",
                body={"awaits": self._session_id, "epoch": epoch, "checks": self._checks},
            )
            for session_id, epoch in waiting
        ]
        await self._store.write_documents(writes)
        self._noted = [each.key for each in writes]

    async def _circle(self, waiting: Sequence[str]) -> list[str] | None:
        """A circle of sessions through the awaited session and one of the `waiting` sessions, if
        this wait has to fail. If several waits of a circle check for circles, the oldest one
        fails."""
        paths = {self._session_id: [self._session_id]}
        waits = {self._session_id: self._key}
        reached = deque(paths)
        while reached and len(paths) < _MAX_SESSIONS:
            here = reached.popleft()
            if here in waiting:
                is_oldest = waits[here] == self._key
                outer = waiting[: waiting.index(here) + 1]
                return [*reversed(outer), *paths[here]] if is_oldest else None
            for there, wait in (await _awaited(self._store, here)).items():
                if there not in paths:
                    paths[there] = [*paths[here], there]
                    waits[there] = min(waits[here], wait or waits[here])
                    reached.append(there)
        return None


async def _awaited(store: Store, session_id: str) -> dict[str, str]:
    """The sessions that this session waits for, each with the id of the wait, or with an empty text
    if the wait does not check for circles, as a question."""
    row = await _row(store, session_id)
    if row is None:
        return {}
    found = dict.fromkeys(_asked(row), "")
    # A process that died left its notes; the next claim of the session has another epoch.
    if row.owner is not None:
        for note in await store.list_documents(_WAITS, prefix=f"{session_id}/"):
            if note.body["epoch"] == row.epoch:
                wait = note.key.partition("/")[2] if note.body["checks"] else ""
                found[str(note.body["awaits"])] = wait
    return found


async def _row(store: Store, session_id: str) -> SessionRow | None:
    try:
        return await store.get(session_id)
    except SessionNotFound:
        return None


def _asked(row: SessionRow) -> list[str]:
    """The sessions whose answers a session needs. Of a group, one answer is enough."""
    questions: Mapping[str, Any] = open_questions(row)
    return [
        each.session
        for each in questions.values()
        if each.session is not None and each.group is None
    ]


def _awaiting(caller: _Caller | None, task: asyncio.Task[Any] | None) -> RunState | None:
    """The run of the caller, if its step waits for the end of `task`."""
    if caller is None or task is None:
        return None
    run, thread_waiter = caller
    if run.task is None:
        return None
    if task.get_loop() is not run.task.get_loop():
        task = thread_waiter
    return run if task is not None and _waits_for(run.task, task, set()) else None


def _waits_for(task: asyncio.Task[Any], future: asyncio.Future[Any], seen: set[int]) -> bool:
    """Whether `task` is `future`, or certainly waits for it."""
    if future is task:
        return True
    if id(future) in seen:
        return False
    seen.add(id(future))
    # Python 3.14 has a public interface for this, earlier versions have none. Waiters of unknown
    # kinds do not count.
    callbacks = getattr(future, "_callbacks", None) or ()
    return any(
        _waits_for(task, waiter, seen)
        for callback, _ in callbacks
        if (waiter := _waiter(callback)) is not None
    )


def _waiter(callback: Any) -> asyncio.Future[Any] | None:
    """The task or future that waits for a future with this callback."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.TaskGroup):
        return getattr(owner, "_parent_task", None)
    owner = getattr(owner, "waiter", owner)  # the iterator of a streamed run
    if isinstance(callback, partial) and callback.args:  # `asyncio.wait_for` before Python 3.12
        owner = callback.args[0]
    if getattr(callback, "__qualname__", "").startswith(("gather.", "shield.")):
        cells = (cell.cell_contents for cell in callback.__closure__ or ())
        owner = next((each for each in cells if isinstance(each, asyncio.Future)), None)
    return owner if isinstance(owner, asyncio.Future) else None
