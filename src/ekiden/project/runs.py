"""Starts runs for the callers of an interface. The runs survive a disconnect of the caller.

A run starts in the transaction that stores its message, and runs in its own task of this process.
If the process dies, the session stays `ready` in the store. A worker, or this process after a
restart, then resumes the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ekiden.core.agent import Team
from ekiden.core.errors import EkidenError, LeaseLost, SessionBusy, SessionNotFound, StoreError
from ekiden.core.errors.server import ServerStopping, TooManyRequests
from ekiden.core.events import Event
from ekiden.core.handoffs import HandoffResult
from ekiden.core.runs import ACTIVE, Run, parse_run_id, run_id_of
from ekiden.core.values import new_id
from ekiden.engine.store_worker import stop_suspended
from ekiden.handoff.records import read_handoff
from ekiden.hub import SessionTails
from ekiden.hub.hub import Shown
from ekiden.project.run_tasks import (
    RunOrder,
    RunTasks,
    RunWatch,
    StartedRun,
    finished_run,
    is_stopped,
    mark_ready,
    started_run,
)
from ekiden.project.stored_runs import done_run, read_run, run_status
from ekiden.runtime import (
    HandoffController,
    RunConfig,
    RunOptions,
    advance,
    submit as store_message,
)
from ekiden.runtime.loop.claim import begun
from ekiden.runtime.loop.session_waits import waiting_for
from ekiden.runtime.questions.cancel_question import take_back
from ekiden.runtime.state.state import RunState
from ekiden.sessions import Session
from ekiden.sessions.session import first_event, run_number
from ekiden.storage.base import SessionFilter, Store
from ekiden.tools.output import to_jsonable

_log = logging.getLogger("ekiden.runs")

_POLL_S = 1.0
_MAX_ENDED = 1000
_STOPPABLE = ACTIVE | {"waiting"}
_READY_READ = 1000
"""The number of ready sessions that are read to count the queue."""
_SHORT_QUEUE = 100
"""A queue below this length is not too long."""
_STOP_HERE_S = 1.0
"""Seconds to wait for code in this process to stop. The caller tries again."""
QUIET_S = 15.0
"""Seconds without an event after which the state of a followed run is read again."""


_NO_LIMITS: Mapping[str, float] = MappingProxyType({})


class RunStarter:
    """Starts runs in one store, at most `most` at a time. Workers execute all other runs."""

    def __init__(
        self,
        store: Store,
        team: Team,
        tails: SessionTails,
        config: RunConfig,
        *,
        most: int = 1000,
        most_queued: int = 10_000,
        stop_elsewhere: Callable[[str], Awaitable[bool]] | None = None,
        serves: Collection[str] | None = None,
    ) -> None:
        """The function `stop_elsewhere` stops a session that the tenant's worker runs in this
        process, and returns whether it stopped a session.

        `serves` are the agents that may run in this process. Workers run all other agents.
        """
        self._store = store
        self._team = team
        self._tails = tails
        self._config = config
        self._most = most
        self._most_queued = most_queued
        self._stop_elsewhere = stop_elsewhere
        self._serves = serves
        self._tasks = RunTasks()
        self._queued = 0
        """The estimated number of runs that wait for a worker."""
        self._stopping = asyncio.Event()
        self._ended: dict[str, Run] = {}
        """By id, runs that ended here and whose stream has not read the end yet."""

    @property
    def active(self) -> int:
        """The number of runs in this process."""
        return len(self._tasks)

    async def start(self, order: RunOrder) -> StartedRun:
        """Store the message and start the run, which survives a disconnect of the caller.

        A session with an active or queued run is busy. If the session's last run waits for people,
        that run is ended. Raises `SessionBusy`, `UnknownAgent` and `UserError` like `Runner.run`,
        `ServerStopping`, and `TooManyRequests` if too many runs are queued.
        """
        return await self._start(order, is_new=order.session_id is None)

    async def _start(self, order: RunOrder, *, is_new: bool) -> StartedRun:
        self._check_open()
        session = Session(
            order.session_id,
            store=self._store,
            user_id=order.user_id,
            title=order.title,
            correlation_id=order.correlation_id,
            priority=order.priority,
        )
        session.meta.update(order.meta)
        options = self._options(order, order.limits)
        session_id = session.session_id

        async def start() -> StartedRun:
            if not is_new:
                await self._check_free(session_id)
            if len(self._tasks) >= self._most:
                return await self._leave_to_workers(options, order, session)
            self._queued = 0
            options.live = self._tails.wants(session_id)
            return await self._begin(
                session_id, options, lambda: begun(options, order.stored_input(), session)
            )

        if order.on_busy == "refuse":
            return await start()
        return await self._when_free(session_id, start)

    async def start_watched(
        self, order: RunOrder, *, through_waits: bool = False, quiet_s: float = QUIET_S
    ) -> tuple[StartedRun, AsyncGenerator[Shown | None, None]]:
        """Like `start`, and also return the events and deltas of the run, as `watch` yields them.

        Models stream their answers, and no delta is missed.
        """
        session_id = order.session_id or new_id("ses")
        tail = await self._tails.prepared(session_id)
        try:
            started = await self._start(
                replace(order, session_id=session_id), is_new=order.session_id is None
            )
        except BaseException:
            tail.close()
            raise
        tail.begin_after(started.after)
        watch = self._watch(started.run_id, through_waits=through_waits, quiet_s=quiet_s)
        watch.here = self._tasks.find(session_id, started.number)
        if len(self._ended) < _MAX_ENDED:
            watch.on_end = self._ended.__setitem__
        return started, watch.shown(started.after, tail)

    async def resume(
        self, session_id: str, *, limits: Mapping[str, float] = _NO_LIMITS
    ) -> StartedRun:
        """Resume the session's unfinished run, with these limits instead of the run's own limits.

        Raises `UserError` if the session has no unfinished run, and `SessionBusy` while another
        task or process runs the session.
        """
        self._check_open()
        await take_back(self._store, session_id)
        session = Session(session_id, store=self._store)
        options = self._options(None, limits)
        if len(self._tasks) < self._most:
            options.live = self._tails.wants(session_id)
            return await self._begin(session_id, options, lambda: mark_ready(options, session))
        async with mark_ready(options, session) as run:
            return started_run(run)  # Leaving the context releases the session to workers.

    async def hand_over(
        self,
        session_id: str,
        asked: Mapping[str, Any],
        *,
        limits: Mapping[str, float],
        wait_s: float,
    ) -> HandoffResult:
        """Hand off the session to an agent, and run this agent in this process within these limits.

        `asked` are the arguments of `HandoffController.start`. Returns the recorded state after at
        most `wait_s` seconds. The agent continues after a disconnect of the caller. If too many
        runs are active in this process, a worker runs the agent.
        """
        self._check_open()
        options = self._options(None, limits)
        controller = HandoffController(
            self._team, self._store, run_config=options.config, options=options
        )
        if len(self._tasks) >= self._most:
            return await controller.start(session_id, run=False, **asked)
        loop = asyncio.get_running_loop()
        recorded: asyncio.Future[str] = loop.create_future()
        finished: asyncio.Future[HandoffResult] = loop.create_future()

        def note(handoff_id: str, number: int) -> None:
            mine.number = number
            if not recorded.done():
                recorded.set_result(handoff_id)

        async def work() -> None:
            try:
                finished.set_result(await controller.start(session_id, **asked))
            except Exception as exc:
                finished.set_exception(exc)

        options.on_handoff_executed = note
        mine = self._tasks.begin(session_id, options, work())
        # Read the exception, so that asyncio does not log it if the caller is gone.
        finished.add_done_callback(lambda done: done.exception())
        await self._unless_stopping({mine.task}, wait_s)
        either: set[asyncio.Future[Any]] = {recorded, mine.task}
        # Without a time limit: the caller needs the recorded handoff, or its error.
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if finished.done():
            return finished.result()
        if not recorded.done():
            raise ServerStopping
        return (await read_handoff(self._store, recorded.result())).result()

    async def read(self, run_id: str) -> Run:
        """The current state of the run. Raises `RunNotFound` and `SessionNotFound`."""
        run = await read_run(self._store, run_id)
        if run.status == "done" and run.output is not None:
            with suppress(EkidenError):  # The team may have changed since.
                session = Session(run.session_id, store=self._store)
                row = await self._store.get(run.session_id)
                if run_id_of(run.session_id, run_number(row)) == run_id:
                    result = await finished_run(self._team, session, row, config=self._config)
                    output = to_jsonable(result.final_output)
                    return run if output == run.output else replace(run, output=output)
        return run

    async def read_ended(self, run_id: str) -> Run:
        """Like `read`, for a caller that has just followed the run to its end."""
        return self._ended.pop(run_id, None) or await self.read(run_id)

    async def wait(self, run_id: str, *, timeout_s: float) -> Run:
        """Wait until the run is not active, the time has passed, or the server stops, and return
        the state of the run."""
        session_id, number = parse_run_id(run_id)
        clock = asyncio.get_running_loop()
        deadline = clock.time() + timeout_s
        mine = self._tasks.find(session_id, number)
        if mine is not None:
            await self._unless_stopping({mine.task}, timeout_s)
            if mine.ended is not None:
                return mine.ended
        run = await self.read(run_id)
        if not run.is_active or clock.time() >= deadline:
            return run
        seen = (await self._store.get(session_id)).seq
        async with self._tails.follow(session_id, after=seen) as tail:
            while True:
                run = await self.read(run_id)
                left_s = deadline - clock.time()
                if not run.is_active or left_s <= 0 or self._tails.is_closed:
                    return run
                if tail.is_closed:
                    await asyncio.sleep(min(left_s, _POLL_S))
                else:
                    await tail.soon(min(left_s, _POLL_S))

    def watch(
        self,
        run_id: str,
        *,
        after: int | None = None,
        through_waits: bool = False,
        quiet_s: float = QUIET_S,
    ) -> AsyncGenerator[Shown | None, None]:
        """Follow a run: yield its events after event number `after`, and the deltas of answers
        between them.

        By default the events begin with the message of the run. The stream ends when the run is not
        active. With `through_waits`, a wait for people does not end the stream. The stream also
        ends when the server stops. Call `read` to find out which of these happened. Yields `None`
        after `quiet_s` seconds without an event. Raises `RunNotFound` or `SessionNotFound` when the
        first item is read.
        """
        watch = self._watch(run_id, through_waits=through_waits, quiet_s=quiet_s)
        return watch.shown(after, None)

    async def watch_session(
        self, session_id: str, *, after: int, quiet_s: float = QUIET_S
    ) -> AsyncGenerator[Shown | None, None]:
        """Follow a session through all its runs, from after the event number `after`, until the
        server stops.

        Raises `SessionNotFound` when the session is deleted. Yields `None` like `watch`.
        """
        place = after
        await self._store.get(session_id)
        while not self._tails.is_closed:
            async with self._tails.follow(session_id, after=place) as tail:
                while not tail.is_closed:
                    shown = await tail.soon(quiet_s)
                    place = tail.after
                    if shown is None:
                        await self._store.get(session_id)
                    yield shown

    async def cancel(self, run_id: str) -> Run:
        """Stop the run. Its work is kept, and the run can be resumed. A finished run does not
        change.

        The run's questions to people and agents are cancelled. If another process runs the session,
        a request to stop is stored. If that process dies, the next owner of the session stops the
        run. The next owner also stops the run if code in this process ignores the cancellation.
        Returns the state of the run after a few seconds at most. A program that runs the session
        with its own `Runner` ignores such requests.
        """
        began = asyncio.get_running_loop().time()
        run = await self.read(run_id)
        session_id, number = parse_run_id(run_id)
        row = await self._store.get(session_id)
        if run.status not in _STOPPABLE or run_number(row) != number:
            return run
        mine = self._tasks.find(session_id, number)
        if mine is not None:
            await mine.stop(status_on_cancel="idle")
        elif self._stop_elsewhere is not None:
            await self._stop_elsewhere(session_id)
        if not await is_stopped(self._store, session_id, number, self._stop_suspended, began=began):
            return await self.read(run_id)
        self._tails.end(session_id)
        run = await self.read(run_id)
        # The next message may have taken the session already.
        return replace(run, status="stopped") if run.is_active else run

    async def stop_here(self, session_id: str) -> bool:
        """Stop the session's run in this process, and return whether a run was stopped."""
        mine = self._tasks.of_session(session_id)
        if mine is None or not await mine.stop(status_on_cancel="idle", timeout_s=_STOP_HERE_S):
            return False
        self._tails.end(session_id)
        return True

    def refuse_new(self) -> None:
        """Refuse new runs, and end all waits."""
        self._stopping.set()

    async def drain(self, grace_s: float) -> None:
        """Refuse new runs. Runs that are not finished after `grace_s` seconds become `ready`, so
        that other processes resume them."""
        self._stopping.set()
        await self._tasks.drain(grace_s)

    def _check_open(self) -> None:
        if self._stopping.is_set():
            raise ServerStopping

    def _watch(self, run_id: str, *, through_waits: bool, quiet_s: float) -> RunWatch:
        return RunWatch(
            self._store, self._tails, run_id, through_waits=through_waits, quiet_s=quiet_s
        )

    def _options(self, order: RunOrder | None, limits: Mapping[str, float]) -> RunOptions:
        config = replace(self._config, on_busy="refuse").with_limits(limits)
        options = RunOptions(
            root=self._team,
            config=config,
            status_on_cancel="ready",
            drives=False,
            serves=self._serves,
        )
        options.waits_for_pending_work = True
        if order is not None:
            options.to = order.to
            options.along = order.along
            options.variables = order.variables
            if order.strategy is not None:
                options.route_options = {"strategy": order.strategy}
        return options

    async def _check_free(self, session_id: str) -> None:
        """`SessionBusy` if agents work on queries of the session. The claim checks the rest."""
        with suppress(SessionNotFound):
            row = await self._store.get(session_id)
            if row.status == "waiting" and await run_status(self._store, row) in ACTIVE:
                raise SessionBusy(session_id, owner="agents that it asked", free_in_s=1.0)

    async def _when_free(
        self, session_id: str, start: Callable[[], Awaitable[StartedRun]]
    ) -> StartedRun:
        """Try to start until the session is free, at most for `busy_timeout_s`."""
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._config.busy_timeout_s
        async with waiting_for(self._store, session_id, checks=True) as wait:
            while True:
                self._check_open()
                try:
                    return await start()
                except SessionBusy as busy:
                    left_s = deadline - clock.time()
                    if left_s <= 0:
                        raise
                    pause_s = min(left_s, max(busy.free_in_s, 0.05), _POLL_S)
                await wait.check()
                await self._store.wait_for_change(pause_s)

    async def _begin(
        self, session_id: str, options: RunOptions, opening: Callable[[], Any]
    ) -> StartedRun:
        started: asyncio.Future[StartedRun] = asyncio.get_running_loop().create_future()
        mine = self._tasks.begin(session_id, options, self._work(session_id, opening, started))

        def note(done: asyncio.Future[StartedRun]) -> None:
            if done.exception() is None:
                mine.number = done.result().number

        started.add_done_callback(note)
        # If the caller leaves, the future must not be cancelled, because `_work` sets its result.
        return await asyncio.shield(started)

    async def _work(
        self,
        session_id: str,
        opening: Callable[[], Any],
        started: asyncio.Future[StartedRun],
    ) -> None:
        run: RunState
        try:
            async with opening() as run:
                mine = self._tasks.current()
                mine.run = run
                events = {event.seq: event for event in run.events}
                started.set_result(started_run(run))
                with self._tails.showing(session_id):
                    async for shown in advance(run):
                        if isinstance(shown, Event):
                            events[shown.seq] = shown
                        self._tails.show(session_id, shown)
            mine.ended = done_run(run, [*events.values()])
            if run.exception is not None:
                _log.warning("session %s failed: %a", session_id, str(run.exception))
        except asyncio.CancelledError:
            if not started.done():
                started.set_exception(ServerStopping())
            self._tails.end(session_id)
            raise
        except Exception as exc:
            if not started.done():
                started.set_exception(exc)
            elif isinstance(exc, LeaseLost):
                _log.warning(
                    "session %s is lost: its lease expired, or another process took it over",
                    session_id,
                )
            elif isinstance(exc, StoreError):
                _log.warning("session %s is left for later: %s", session_id, exc)
            else:
                _log.exception("session %s cannot be advanced", session_id)

    async def _leave_to_workers(
        self, options: RunOptions, order: RunOrder, session: Session
    ) -> StartedRun:
        if self._queued >= self._most_queued:
            # The estimate does not shrink when workers take runs: count the real queue first.
            newest = await self._store.list(SessionFilter(status="ready"), limit=_READY_READ)
            self._queued = sum(row.owner is None for row in newest.sessions)
            # Only `_READY_READ` sessions are counted, so only a short queue is known to have room.
            # Until then, the estimate stays full, and the next call counts again.
            if self._queued >= min(_SHORT_QUEUE, self._most_queued):
                self._queued = self._most_queued
                raise TooManyRequests("too many runs wait already", retry_after_s=5)
        number = await store_message(options, order.stored_input(), session)
        self._queued += 1
        row = await self._store.get(session.session_id)
        after = max(first_event(row) - 1, 0) if run_number(row) == number else 0
        return StartedRun(session_id=session.session_id, number=number, after=after)

    async def _stop_suspended(self, session_id: str) -> None:
        await stop_suspended(self._store, self._team, self._config, session_id)

    async def _unless_stopping(self, tasks: set[asyncio.Task[None]], timeout_s: float) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait(
                {stopping, *tasks}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
