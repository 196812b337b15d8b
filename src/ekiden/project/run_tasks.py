"""Runs of a project: their configuration from settings, their orders, and the tasks of this process
that execute, follow and stop them."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.quotes import as_caller_data
from ekiden.core.errors import SessionBusy, UnknownAgent
from ekiden.core.events import Event
from ekiden.core.profile import Budget
from ekiden.core.runs import ACTIVE, Done, Run, parse_run_id, run_id_of
from ekiden.engine.store_worker import SessionTask
from ekiden.hub import SessionTails, Tail
from ekiden.hub.hub import Shown
from ekiden.project.settings import Settings
from ekiden.project.stored_runs import ENDINGS, run_range, run_status
from ekiden.project.stores import DEFAULT_TENANT, tenant_app
from ekiden.routing.decision import Strategy
from ekiden.runtime import Limits, Price, RunConfig, RunOptions, RunResult, RunResultStreaming
from ekiden.runtime.loop.claim import begun, read_input, resumed
from ekiden.runtime.loop.load import ended_run
from ekiden.runtime.questions.cancel_question import ask_to_stop, take_back
from ekiden.runtime.state.cursor import open_questions
from ekiden.runtime.state.state import RunState
from ekiden.sessions import Session
from ekiden.sessions.session import run_number
from ekiden.storage.base import Commit, DocumentWrite, SessionPatch, SessionRow, Store

if TYPE_CHECKING:
    from ekiden.embeddings.base import Embedder

_CANCEL_WAIT_S = 2.0
"""Seconds to wait for cancelled tasks at the end; then the process ends without them."""
_PATIENCE_S = 5.0
"""Seconds to wait for another process to stop a run."""
_LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """A message for a session, with the options of its run."""

    input: str | Iterable[Any]
    session_id: str | None = None
    """The id of the session. `None` means a new session."""
    to: str | None = None
    """The recipient: an agent's name, or ``auto`` for the router. `None` means the session's active
    agent."""
    strategy: Strategy | None = None
    user_id: str | None = None
    """The user of a new session."""
    title: str | None = None
    correlation_id: str | None = None
    priority: int | str = "normal"
    """The priority of a new session."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Further metadata of a new session."""
    variables: Mapping[str, Any] | None = None
    """Variables that are set in the session together with the message."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The limits of this run, by name. Missing limits come from the settings."""
    on_busy: Literal["wait", "refuse"] = "refuse"
    may_write_history: bool = False
    """Whether all items of the input are stored unchanged. If false, only user messages are stored
    unchanged, and all other items are quoted as data (see `as_caller_data`)."""
    along: Callable[[int], DocumentWrite] | None = None
    """A function that gets the number of the run and returns a document. The document is stored
    together with the message. If the version of the document has changed, nothing is stored, and
    `StaleDocument` is raised."""

    def stored_input(self) -> str | Iterable[Any]:
        """The input in its stored form. Raises `UserError` for an invalid item."""
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
        """The id of the run."""
        return run_id_of(self.session_id, self.number)


@asynccontextmanager
async def mark_ready(options: RunOptions, session: Session) -> AsyncIterator[RunState]:
    """Claim the session, and mark its run as unfinished in the store.

    After this call, a worker resumes the run if this process dies. The outcome of the previous run
    can no longer be mistaken for the outcome of this run.
    """
    async with resumed(options, session) as run:
        patch = SessionPatch(status="ready", outcome="", cursor=run.cursor.to_json())
        await run.store.commit(run.claim, Commit(patch=patch, events=()))
        yield run


def started_run(run: RunState) -> StartedRun:
    """Create the `StartedRun` of a run that has just begun."""
    cursor = run.cursor
    return StartedRun(
        session_id=run.session_id,
        number=cursor.progress.run,
        after=max(cursor.progress.first - 1, 0),
    )


@dataclass(slots=True, eq=False)
class RunTask(SessionTask):
    """A task that runs a session, or waits until the session is free."""

    session_id: str = ""
    number: int | None = None
    """The number of the run; `None` until its message is stored."""
    run: RunState | None = None
    """The state of the run, also after its end; `None` until the run begins."""
    ended: Run | None = None
    """The record of a run that ended in this process, if it is complete."""


class RunTasks:
    """Owns the tasks of runs, so that a disconnect of the caller does not stop them."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], RunTask] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(
        self, session_id: str, options: RunOptions, work: Coroutine[Any, Any, None]
    ) -> RunTask:
        """Start `work` in its own task."""
        task = asyncio.create_task(work)
        found = self._tasks[task] = RunTask(task, options, session_id=session_id)
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return found

    def current(self) -> RunTask:
        """The run task of the current asyncio task."""
        task = asyncio.current_task()
        assert task is not None
        return self._tasks[task]

    def find(self, session_id: str, number: int) -> RunTask | None:
        """The task of the run; `None` if this process does not run it."""
        for each in self._tasks.values():
            if each.session_id == session_id and each.number == number:
                return each
        return None

    def of_session(self, session_id: str) -> RunTask | None:
        """The task of the session's run, if its message is stored; otherwise `None`."""
        for each in self._tasks.values():
            if each.session_id == session_id and each.number is not None:
                return each
        return None

    async def drain(self, grace_s: float) -> None:
        """Wait for all tasks, and cancel tasks that are not done in time. The call does not wait
        for code that ignores cancellation."""
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
    """Stop the run, or request the process that owns the session to stop it. Return whether the run
    is stopped.

    If the owner dies or releases the session meanwhile, `stop_suspended` stops the run in this
    process. This function waits at most a few seconds after `began`, a time on the clock of the
    event loop. After that, the request stays in the store until a process handles it.
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
    """Whether this run of the session is not active and will not resume by itself."""
    return run_number(row) != number or row.status == "idle"


def start_run(
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
    """Start a run with the message `text` in the session. With `live`, models stream their answers.

    `to` is an agent's name, or ``auto`` for the router with `strategy`. The default is the active
    agent of the session.
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


def resume_run(
    team: Team | Agent[Any], session: Session, *, config: RunConfig, live: bool = False
) -> RunResultStreaming:
    """Resume the unfinished run of the session. Reading the result raises `UserError` if the
    session has no unfinished run."""
    options = RunOptions(root=team, config=config, live=live)
    return RunResultStreaming(lambda: resumed(options, session))


async def finished_run(
    team: Team | Agent[Any], session: Session, row: SessionRow, *, config: RunConfig
) -> RunResult:
    """The result of the session's last run, which another process finished."""
    options = RunOptions(root=team, config=config)
    return RunResult(await ended_run(options, session.store, row))


_LEAVING_S = 1.0
"""Seconds to wait for the owner of a session to release it after the end of a run."""
_ASKED_LOOK_S = 1.0
"""How often to look whether an agent that a run asked waits for a person. The run then waits too,
without an event of its own."""


class RunWatch:
    """Follows one run of a session, in any process."""

    def __init__(
        self, store: Store, tails: SessionTails, run_id: str, *, through_waits: bool, quiet_s: float
    ) -> None:
        self._store = store
        self._tails = tails
        self._run_id = run_id
        self._session_id, self._number = parse_run_id(run_id)
        self._unfinished = ACTIVE | {"waiting"} if through_waits else ACTIVE
        self._quiet_s = self._look_s = quiet_s
        self._first = self._place = 0
        self.here: RunTask | None = None
        """The task of the run in this process. Its state is read without the store."""
        self.on_end: Callable[[str, Run], None] | None = None
        """Called with the id and the record of a run that ended in this process."""

    async def shown(
        self, after: int | None, tail: Tail | None
    ) -> AsyncGenerator[Shown | None, None]:
        """See `RunStarter.watch`. `tail` is an event stream that was opened before the start of the
        run, or `None`."""
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
                    async for shown in self._until_possible_end(now):
                        yield shown

    async def _until_possible_end(self, tail: Tail) -> AsyncGenerator[Shown | None, None]:
        """Events and deltas, until the run may have ended: an ending event, or silence."""
        while not tail.is_closed:
            shown = await tail.soon(self._look_s)
            if isinstance(shown, Event) and self._may_begin_another(shown):
                last = await self._end()
                if last is not None and shown.seq > last:
                    return  # The event belongs to the next run.
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
        may_wait = "waiting" not in self._unfinished and bool(open_questions(row))
        self._look_s = min(_ASKED_LOOK_S, self._quiet_s) if may_wait else self._quiet_s
        return None if await run_status(self._store, row) in self._unfinished else row.seq

    def _may_begin_another(self, event: Event) -> bool:
        is_message = event.type == "message" and event.step is None and bool(event.items)
        return is_message and event.seq > self._first


# Configuration of runs.

_OTHER_TENANTS: Final = "*"


def config_of(settings: Settings) -> RunConfig:
    """The configuration of runs from the settings."""
    return RunConfig(
        operator=settings.inbox.role,
        escalation=settings.inbox.escalation,
        app=settings.app,
        prices=prices_of(settings),
        bus=settings.bus,
        escalate_to=settings.handoffs.escalate_to,
        limits=_limits(settings),
        model_timeout_s=settings.limits.model_seconds,
        daily=_daily(settings, DEFAULT_TENANT),
        embedder=partial(embedder_of, settings.memory.embedding_model, settings.memory.dimension),
    )


def tenant_config(settings: Settings, tenant: str) -> RunConfig:
    """The configuration of runs of a tenant. Approvals go to the inbox."""
    return replace(
        config_of(settings),
        approver="inbox",
        app=tenant_app(settings.app, tenant),
        daily=_daily(settings, tenant),
    )


def _limits(settings: Settings) -> Limits:
    own = settings.limits
    return Limits(
        depth=settings.handoffs.depth,
        turns=own.turns,
        tokens=own.tokens,
        seconds=own.seconds,
        money=own.money,
    )


def _daily(settings: Settings, tenant: str) -> Budget | None:
    """The daily budget of a tenant; `None` if there is none."""
    tenants = settings.limits.tenants
    found: Any = tenants.get(tenant, tenants.get(_OTHER_TENANTS))
    return None if found is None else Budget(**found)


def prices_of(settings: Settings) -> dict[str, Price]:
    """The prices of models in the settings."""
    return {name: Price(**each) for name, each in settings.prices.items()}


@lru_cache(maxsize=8)
def embedder_of(name: str, dimension: int | None) -> Embedder:
    """Return the embedder with this name. All callers in the process share it. Raises `UserError`
    if the embedder is unavailable."""
    from ekiden.embeddings.base import embedder_for

    return embedder_for(name, dimension=dimension)
