"""Run tasks of this process: following a run to its end, and cancelling it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import SessionBusy, UnknownAgent
from ekiden.core.events import Event
from ekiden.core.runs import ACTIVE, Done, Run, parse_run_id
from ekiden.engine.store_worker import SessionTask
from ekiden.hub import SessionTails, Tail
from ekiden.hub.tails import Shown
from ekiden.project.runs.stored_runs import ENDINGS, run_range, run_status
from ekiden.routing.decision import Strategy
from ekiden.runtime import RunConfig, RunOptions, RunResult, RunResultStreaming
from ekiden.runtime.loop.claim import begun, resumed
from ekiden.runtime.loop.load import ended_run
from ekiden.runtime.questions.cancel_question import ask_to_stop, take_back
from ekiden.runtime.state.state import RunState
from ekiden.sessions import Session
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionRow, Store

_CANCEL_WAIT_S = 2.0
"""How long what was cancelled at the end may take; then the process ends without it."""
_PATIENCE_S = 5.0
"""How long one waits for another process to stop a run."""
_LOOK_EVERY_S = 0.25


@dataclass(slots=True, eq=False)
class RunTask(SessionTask):
    """A task that runs a session, or waits until it is free."""

    session_id: str = ""
    number: int | None = None
    """Of the run; `None` until its message is stored."""
    run: RunState | None = None
    """As long as the run is worked on, and afterwards."""
    ended: Run | None = None
    """The record of a run that was brought to its end here, if all of it is known."""


class RunTasks:
    """Owns the tasks: a disconnect of the caller does not stop them."""

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
        """Wait for all tasks, and cancel those that are not done in time; do not wait for code that
        ignores cancellation."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_CANCEL_WAIT_S)


async def is_stopped(
    store: Store,
    session_id: str,
    number: int,
    stop_suspended: Callable[[str], Awaitable[None]],
    *,
    began: float,
) -> bool:
    """Stop a run without an owner, or request it from its owner; returns whether it is stopped.

    If the owner dies or releases the session meanwhile, `stop_suspended` stops the run here. After
    the time, which starts at `began` on the loop's clock, the request stays in the store until a
    process handles it.
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
    """Whether the session's run of that number is neither active nor going to resume by itself."""
    return run_number(row) != number or row.status == "idle"


def begin(
    team: Team | Agent[Any],
    text: str,
    session: Session,
    *,
    config: RunConfig,
    live: bool = False,
    to: str | None = None,
    strategy: Strategy | None = None,
    variables: Mapping[str, Any] | None = None,
) -> RunResultStreaming:
    """A run of `text` in the session; `live` asks models for their answers piece by piece.

    `to` is an agent's name, or ``auto`` for the router, which `strategy` is passed to; without it
    the agent that has the session gets the message.
    """
    options = RunOptions(
        root=team,
        config=config,
        live=live,
        to=to,
        route_options=None if strategy is None else {"strategy": strategy},
        variables=variables,
    )
    return RunResultStreaming(lambda: begun(options, text, session))


def go_on(
    team: Team | Agent[Any], session: Session, *, config: RunConfig, live: bool = False
) -> RunResultStreaming:
    """The session's unfinished run; reading it raises `UserError` if there is none."""
    options = RunOptions(root=team, config=config, live=live)
    return RunResultStreaming(lambda: resumed(options, session))


async def ended(
    team: Team | Agent[Any], session: Session, row: SessionRow, *, config: RunConfig
) -> RunResult:
    """The session's last run, which another process finished."""
    options = RunOptions(root=team, config=config)
    return RunResult(await ended_run(options, session.store, row))


_LEAVING_S = 1.0
"""How long the owner of a session may take to release it after the end of a run."""


class RunWatch:
    """Follows one run of a session, in any process."""

    def __init__(
        self, store: Store, tails: SessionTails, run_id: str, *, through_waits: bool, quiet_s: float
    ) -> None:
        self._store = store
        self._tails = tails
        self._run_id = run_id
        self._session_id, self._number = parse_run_id(run_id)
        self._going_on = ACTIVE | {"waiting"} if through_waits else ACTIVE
        self._quiet_s = quiet_s
        self._first = self._place = 0
        self.here: RunTask | None = None
        """Who works on the run in this process: then the store need not be asked how it stands."""
        self.on_end: Callable[[str, Run], None] | None = None
        """Told the record of a run that was brought to its end here."""

    async def shown(
        self, after: int | None, tail: Tail | None
    ) -> AsyncGenerator[Shown | None, None]:
        """See `Runs.watch`; `tail` is one that was prepared before the run began."""
        if self.here is None or after is None:
            self._first, _ = await run_range(self._store, self._run_id)
        else:
            self._first = after + 1
        before = self._first - 1
        self._place = before if after is None else max(after, before)
        while not self._tails.is_closed:
            following = tail or self._tails.follow(self._session_id, after=self._place)
            tail = None
            async with following as now:
                while not now.is_closed:
                    end = await self._end()
                    if end is not None:
                        while self._place < end and not now.is_closed:
                            shown = await now.soon(self._quiet_s)
                            self._place = now.after
                            yield shown
                        if self._place >= end:
                            return
                        break
                    async for shown in self._until_it_may_be_over(now):
                        yield shown

    async def _until_it_may_be_over(self, tail: Tail) -> AsyncGenerator[Shown | None, None]:
        """Until something came after which one has to look how the run stands."""
        while not tail.is_closed:
            shown = await tail.soon(self._quiet_s)
            if isinstance(shown, Event) and self._may_begin_another(shown):
                last = await self._end()
                if last is not None and shown.seq > last:
                    return  # It is the next run's.
            self._place = tail.after
            if shown is not None or not tail.is_closed:
                yield shown
            if shown is None or (isinstance(shown, Event) and shown.type in ENDINGS):
                return

    async def _end(self) -> int | None:
        """The number of the run's last event; `None` while it is active."""
        here = self.here
        if here is not None and here.run is not None:
            if here.run.outcome is None and not here.task.done():
                return None
            if isinstance(here.run.outcome, Done):
                await asyncio.wait({here.task}, timeout=_LEAVING_S)
            if here.ended is not None:
                if self.on_end is not None:
                    self.on_end(self._run_id, here.ended)
                return here.run.next_seq - 1
            self.here = None
        row = await self._store.get(self._session_id)
        if run_number(row) != self._number:
            _, last = await run_range(self._store, self._run_id)
            return row.seq if last is None else last
        return None if await run_status(self._store, row) in self._going_on else row.seq

    def _may_begin_another(self, event: Event) -> bool:
        is_message = event.type == "message" and event.step is None and bool(event.items)
        return is_message and event.seq > self._first
