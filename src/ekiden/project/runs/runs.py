"""Runs that an interface starts for its callers; they survive a disconnect.

A run begins in this process, in the transaction that stores its message, and runs in its own task.
If the process dies, the session stays `ready` in the store, and any worker, or this process after a
restart, resumes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from ekiden.core.agent import Team
from ekiden.core.conversation.quotes import as_caller_data
from ekiden.core.errors import (
    EkidenError,
    LeaseLost,
    SessionBusy,
    SessionNotFound,
    StoreError,
)
from ekiden.core.errors.server import ServerStopping, TooManyRequests
from ekiden.core.events import Event
from ekiden.core.handoffs.request import HandoffResult
from ekiden.core.runs import ACTIVE, Run, parse_run_id, run_id_of
from ekiden.core.values import new_id
from ekiden.engine.stops import stop_suspended
from ekiden.handoff.records.records import read_handoff
from ekiden.hub import SessionTails
from ekiden.hub.tails import Shown
from ekiden.project.runs.stored_runs import done_run, read_run, run_status
from ekiden.project.runs.tasks import RunTasks, RunWatch, ended, is_stopped
from ekiden.routing.decision import Strategy
from ekiden.runtime import (
    HandoffController,
    RunConfig,
    RunOptions,
    advance,
    submit as store_message,
)
from ekiden.runtime.loop.claim import begun, read_input, resumed
from ekiden.runtime.questions.cancel_question import take_back
from ekiden.runtime.state.state import RunState
from ekiden.sessions import Session
from ekiden.sessions.progress import first_event, run_number
from ekiden.storage.base import Commit, DocumentWrite, SessionFilter, SessionPatch, Store
from ekiden.tools.output import to_jsonable

_log = logging.getLogger("ekiden.runs")

_LOOK_EVERY_S = 1.0
_MOST_ENDED = 1000
QUIET_S = 15.0
"""After so long without an event a run that is watched is looked at again."""


_NO_LIMITS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """A message for a session, and how it is to be run."""

    input: str | Iterable[Any]
    session_id: str | None = None
    """`None`: a new session."""
    to: str | None = None
    """An agent's name, ``auto`` for the router; `None`: the session's active agent."""
    strategy: Strategy | None = None
    user_id: str | None = None
    """The owner of a new session."""
    title: str | None = None
    correlation_id: str | None = None
    priority: int | str = "normal"
    """Of a new session."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Further facts that a new session is created with."""
    variables: Mapping[str, Any] | None = None
    """Set in the session together with the message."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Of this run, by name; others are as the settings have them."""
    on_busy: Literal["wait", "refuse"] = "refuse"
    may_write_history: bool = False
    """Whether items of the input are stored as given; otherwise only what the user says is, and the
    rest is quoted as data: see `as_caller_data`."""
    along: Callable[[int], DocumentWrite] | None = None
    """A document that is stored together with the message, made of the run's number; if its
    version is not as expected, nothing is stored: `StaleDocument`."""

    def stored_input(self) -> str | Iterable[Any]:
        """The input as it is stored; `UserError` for an item that cannot be."""
        if self.may_write_history or isinstance(self.input, str):
            return self.input
        return as_caller_data(read_input(self.input))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """A run whose message is stored."""

    session_id: str
    number: int
    after: int
    """The number of the last event before the run."""

    @property
    def run_id(self) -> str:
        """What the run is called."""
        return run_id_of(self.session_id, self.number)


class RunStarter:
    """Starts runs in one store, at most `most` at a time; what is more waits for a worker."""

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
        """`stop_elsewhere` stops the tenant's own worker if it runs a session in this process, and
        returns whether it did. `serves`: the agents that may run here; other agents are left to
        workers."""
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
        """Left to workers since there was room, here or in the line."""
        self._stopping = asyncio.Event()
        self._ended: dict[str, Run] = {}
        """By id, runs that ended here and whose stream has not shown the end yet."""

    @property
    def active(self) -> int:
        """How many are worked on here."""
        return len(self._tasks)

    async def start(self, order: RunOrder) -> StartedRun:
        """Store the message and start the run, which survives a disconnect of the caller.

        A session with a current or queued run is busy; a run that waits for people is ended. Raises
        what `Runner.run` raises before it begins: `SessionBusy`, `UnknownAgent`, `UserError`;
        `ServerStopping`, and `TooManyRequests` if too many wait already.
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

        async def begin() -> StartedRun:
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
            return await begin()
        return await self._patiently(begin)

    async def start_watched(
        self, order: RunOrder, *, through_waits: bool = False, quiet_s: float = QUIET_S
    ) -> tuple[StartedRun, AsyncGenerator[Shown | None, None]]:
        """`start`, with what happens in the run from its beginning, as `watch` gives it.

        Models answer piece by piece, and no delta is missed.
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
        if len(self._ended) < _MOST_ENDED:
            watch.on_end = self._ended.__setitem__
        return started, watch.shown(started.after, tail)

    async def resume(
        self, session_id: str, *, limits: Mapping[str, float] = _NO_LIMITS
    ) -> StartedRun:
        """Resume the session's unfinished run with these limits instead of its own; `UserError` if
        there is none.

        `SessionBusy` while another task or process runs it.
        """
        self._check_open()
        await take_back(self._store, session_id)
        session = Session(session_id, store=self._store)
        options = self._options(None, limits)
        if len(self._tasks) < self._most:
            options.live = self._tails.wants(session_id)
            return await self._begin(session_id, options, lambda: _made_ready(options, session))
        async with _made_ready(options, session) as run:
            return _started(run)  # To leave it is to leave it to workers.

    async def hand_over(
        self,
        session_id: str,
        asked: Mapping[str, Any],
        *,
        limits: Mapping[str, float],
        wait_s: float,
    ) -> HandoffResult:
        """Hand the session to an agent, which works on it here within these limits.

        As `HandoffController.start`, which gets `asked`, but returns the recorded state after
        `wait_s` seconds; the agent continues after a disconnect of the caller. If too many runs are
        active here, the agent's work is left to workers.
        """
        self._check_open()
        options = self._options(None, limits)
        controller = HandoffController(
            self._team, self._store, run_config=options.config, options=options
        )
        if len(self._tasks) >= self._most:
            return await controller.start(session_id, run=False, **asked)
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[str] = loop.create_future()
        made: asyncio.Future[HandoffResult] = loop.create_future()

        def note(handoff_id: str, number: int) -> None:
            mine.number = number
            if not begun.done():
                begun.set_result(handoff_id)

        async def work() -> None:
            try:
                made.set_result(await controller.start(session_id, **asked))
            except Exception as exc:
                made.set_exception(exc)

        options.on_handoff_executed = note
        mine = self._tasks.begin(session_id, options, work())
        made.add_done_callback(lambda done: done.exception())
        await self._unless_stopping({mine.task}, wait_s)
        known: set[asyncio.Future[Any]] = {begun, mine.task}
        await asyncio.wait(known, return_when=asyncio.FIRST_COMPLETED)
        if made.done():
            return made.result()
        if not begun.done():
            raise ServerStopping
        return (await read_handoff(self._store, begun.result())).result()

    async def read(self, run_id: str) -> Run:
        """The run as it stands; `RunNotFound`, `SessionNotFound`."""
        run = await read_run(self._store, run_id)
        if run.status == "done" and run.output is not None:
            with suppress(EkidenError):  # The team has changed since.
                session = Session(run.session_id, store=self._store)
                row = await self._store.get(run.session_id)
                if run_id_of(run.session_id, run_number(row)) == run_id:
                    result = await ended(self._team, session, row, config=self._config)
                    output = to_jsonable(result.final_output)
                    return run if output == run.output else replace(run, output=output)
        return run

    async def read_ended(self, run_id: str) -> Run:
        """`read`, for a caller that has just followed the run to its end."""
        return self._ended.pop(run_id, None) or await self.read(run_id)

    async def wait(self, run_id: str, *, timeout_s: float) -> Run:
        """The run when it is no longer active, or its state when the time is over or the server
        stops."""
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
                    await asyncio.sleep(min(left_s, _LOOK_EVERY_S))
                else:
                    await tail.soon(min(left_s, _LOOK_EVERY_S))

    def watch(
        self,
        run_id: str,
        *,
        after: int | None = None,
        through_waits: bool = False,
        quiet_s: float = QUIET_S,
    ) -> AsyncGenerator[Shown | None, None]:
        """What happens in the run: its events after the one numbered `after`, or from its message
        on, and deltas of answers between them.

        Ends when the run is no longer active; with `through_waits` only at an outcome other than
        waiting for people. Also ends when the server stops; `read` shows which it was. `None`:
        nothing happened for `quiet_s` seconds. The first `anext` raises
        `RunNotFound`, `SessionNotFound`.
        """
        watch = self._watch(run_id, through_waits=through_waits, quiet_s=quiet_s)
        return watch.shown(after, None)

    async def watch_session(
        self, session_id: str, *, after: int, quiet_s: float = QUIET_S
    ) -> AsyncGenerator[Shown | None, None]:
        """All that happens in a session after the event numbered `after`, run after run, until the
        server stops; `SessionNotFound` when it is removed. `None`: as in `watch`."""
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
        """Stop the run; its work is kept, and it can be resumed. A finished run does not change.

        Its questions to people and agents are cancelled. A request to stop is stored for another
        process that runs it; if that process dies, the next owner of the session stops it. The same
        holds for code here that ignores cancellation. Returns the state of the run after some
        seconds at most; a program that runs the session by itself ignores such requests.
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
        """Stop the session's work in this process; returns whether there was any and it stopped."""
        mine = self._tasks.of_session(session_id)
        if mine is None or not await mine.stop(
            status_on_cancel="idle", timeout_s=_SHORT_PATIENCE_S
        ):
            return False
        self._tails.end(session_id)
        return True

    def refuse_new(self) -> None:
        """From now on start nothing, and end all waits."""
        self._stopping.set()

    async def drain(self, grace_s: float) -> None:
        """Take nothing new; what is not over in time is left for others, as `ready`."""
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
        """`SessionBusy` if agents work for the session; who else has it is known by the claim."""
        with suppress(SessionNotFound):
            row = await self._store.get(session_id)
            if row.status == "waiting" and await run_status(self._store, row) in ACTIVE:
                raise SessionBusy(session_id, owner="agents that it asked", free_in_s=1.0)

    async def _patiently(self, begin: Callable[[], Awaitable[StartedRun]]) -> StartedRun:
        """Try until the session is free, as long as the configuration says."""
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._config.busy_timeout_s
        while True:
            self._check_open()
            try:
                return await begin()
            except SessionBusy as busy:
                left_s = deadline - clock.time()
                if left_s <= 0:
                    raise
                pause_s = min(left_s, max(busy.free_in_s, 0.05), _LOOK_EVERY_S)
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
                told = {event.seq: event for event in run.events}
                started.set_result(_started(run))
                with self._tails.showing(session_id):
                    async for shown in advance(run):
                        if isinstance(shown, Event):
                            told[shown.seq] = shown
                        self._tails.show(session_id, shown)
            mine.ended = done_run(run, [*told.values()])
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
                    "session %s is no longer ours: its lease expired, or another process took "
                    "it over",
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
            newest = await self._store.list(SessionFilter(status="ready"), limit=_LOOKED_AT)
            self._queued = sum(row.owner is None for row in newest.sessions)
            if self._queued >= min(_SHORT, self._most_queued):
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


_STOPPABLE = ACTIVE | {"waiting"}
_LOOKED_AT = 1000
_SHORT_PATIENCE_S = 1.0
"""How long others wait for code here that is to stop; they ask again."""
_SHORT = 100
"""A line of so many is not too long."""


@asynccontextmanager
async def _made_ready(options: RunOptions, session: Session) -> AsyncIterator[RunState]:
    """Mark the run as unfinished in the store too: a worker resumes it if this process dies, and
    its earlier outcome is not taken for the new one."""
    async with resumed(options, session) as run:
        patch = SessionPatch(status="ready", outcome="", cursor=run.cursor.to_json())
        await run.store.commit(run.claim, Commit(patch=patch, events=()))
        yield run


def _started(run: RunState) -> StartedRun:
    cursor = run.cursor
    return StartedRun(
        session_id=run.session_id,
        number=cursor.progress.run,
        after=max(cursor.progress.first - 1, 0),
    )
