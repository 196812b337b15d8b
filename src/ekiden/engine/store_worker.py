"""Claims and runs the sessions of one store, and serves requests to stop their runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ekiden.core.agent import Team
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.current_agent import LOGGED
from ekiden.core.errors import (
    LeaseLost,
    SessionBusy,
    SessionNotFound,
    StaleDocument,
    StoreError,
    StoreUnavailable,
    UnknownAgent,
    UserError,
)
from ekiden.core.events import Event
from ekiden.core.values import owner_name
from ekiden.runtime import RunConfig, RunOptions, advance, resumed_run
from ekiden.runtime.loop.claim import resumed
from ekiden.runtime.questions.cancel_question import (
    STOPS,
    StopRequest,
    abandon,
    removal,
    stop_requests,
)
from ekiden.runtime.state.calls import to_the_end
from ekiden.sessions import Session
from ekiden.storage.base import Claim, SessionRow, SessionStatus, Store
from ekiden.storage.timers import LAPSE_S
from ekiden.tracing.logs import LogSession

_log = logging.getLogger("ekiden.worker")

LOOK_S = 4.0
"""The number of seconds after which a store is checked without a hint, because a hint may be
lost."""
REST_S = 0.5
"""The pause after a failure, so that retries do not become a busy loop."""
_STOP_TIMEOUT_S = 5.0
"""The default wait for a cancelled session to end, in seconds."""
_AGAIN_S = 30.0
"""Seconds after which a session is cancelled again. Before, it may be cleaning up."""


class Audience(Protocol):
    """The observers of sessions that a worker runs."""

    def wants(self, session_id: str) -> bool:
        """Whether the session has observers now. If so, its models stream their answers."""
        ...

    def showing(self, session_id: str) -> AbstractContextManager[None]:
        """A context that is open while this process runs the session."""
        ...

    def show(self, session_id: str, shown: Event | ModelDelta) -> None:
        """Show observers an event, which is already stored, or a delta."""
        ...


@dataclass(slots=True, eq=False)
class SessionTask:
    """A task of this process that runs a session."""

    task: asyncio.Task[None]
    options: RunOptions
    cancelled_at: float | None = None
    """The event loop's time of the last cancellation."""

    async def stop(
        self, *, status_on_cancel: SessionStatus, timeout_s: float | None = None
    ) -> bool:
        """Cancel the task. The session gets the status `status_on_cancel`, and can be resumed.

        Returns whether the task ended within `timeout_s` seconds, by default five.
        """
        self.options.status_on_cancel = status_on_cancel
        now = asyncio.get_running_loop().time()
        if self.cancelled_at is None or now - self.cancelled_at >= _AGAIN_S:
            self.cancelled_at = now
            self.task.cancel()
        timeout_s = _STOP_TIMEOUT_S if timeout_s is None else timeout_s
        done, _ = await asyncio.wait({self.task}, timeout=timeout_s)
        return bool(done)


class StoreWorker:
    """Runs sessions of one store with a team. The caller decides when, and how many at a time."""

    def __init__(
        self,
        store: Store,
        team: Team,
        *,
        serves: Collection[str],
        config: RunConfig,
        context: Any = None,
        audience: Audience | None = None,
        name: str = "",
        listens: bool = True,
    ) -> None:
        """`serves` contains the agents whose sessions are claimed, and `name` is the tenant.
        Without `listens`, the store is only polled, which is cheaper if hints are expensive."""
        self.store = store
        self.team = team
        self.config = config
        self.name = name
        self.serves = frozenset(serves)
        self.stopping = asyncio.Event()
        """Set when no further session may be claimed."""
        self._agents = sorted(self.serves)
        # A worker that serves the whole team need not check the active agent after each handoff.
        self._limit = None if len(self.serves) == len(team) else self.serves
        self._listens = listens
        self._context = context
        self._audience = audience
        self._under_way: dict[str, SessionTask] = {}
        """The running sessions by id."""
        self.has_more: Callable[[], Awaitable[bool]] | None = None
        """Returns whether background tasks will soon make sessions ready."""
        self.finished = 0
        """The number of sessions run to an outcome here."""

    @property
    def under_way(self) -> Collection[str]:
        """The ids of the sessions that run in this process."""
        return self._under_way.keys()

    async def claim(self) -> tuple[Claim, SessionRow] | None:
        """Claim the next session. If the call is cancelled, the session does not stay claimed."""
        claiming = self.store.claim_next(
            owner=owner_name(), lease_s=self.config.lease_s, agents=self._agents
        )
        # The store may claim a session just before the cancellation arrives. So the call is awaited
        # to its end, and the claim is then released.
        claimed, cancelled = await to_the_end(claiming)
        if cancelled is not None:
            if claimed is not None:
                await self.store.release(claimed[0])
            raise cancelled
        return claimed

    async def ready(self, *, slower: float, has_room: Callable[[], bool]) -> None:
        """Wait until a session may be ready, or until it is time to check without a hint. `slower`
        is a factor for that time.

        `has_room` returns whether this process would claim a session. If it would not, another
        process gets the hint.
        """
        if self._listens:
            # The expiry of a lease sends no hint. A check once per lease finds the sessions of dead
            # processes.
            longest_s = min(LOOK_S, self.config.lease_s + REST_S) * slower
            await self.store.wait_for_ready(self._agents, longest_s, has_room=has_room)
        else:
            await asyncio.sleep(LAPSE_S * slower)

    async def hint(self, longest_s: float, *, about: Collection[str]) -> None:
        """Wait until a document in one of these collections may have changed, at most `longest_s`
        seconds."""
        if self._listens:
            await self.store.wait_for_change(longest_s, about=about)
        else:
            await asyncio.sleep(min(longest_s, 2 * LAPSE_S))

    async def stop_session(
        self,
        session_id: str,
        *,
        status_on_cancel: SessionStatus = "idle",
        timeout_s: float | None = None,
    ) -> bool:
        """Stop running the session, which is kept and can be resumed. Returns whether the session
        was running in this process and has stopped within `timeout_s` seconds, by default five.

        A claimed session before its first step is only released, and its row does not change.
        """
        found = self._under_way.get(session_id)
        return found is not None and await found.stop(
            status_on_cancel=status_on_cancel, timeout_s=timeout_s
        )

    async def advance(self, claim: Claim, row: SessionRow) -> None:
        """Run the session to an outcome, or until it must wait. Failures are logged. Call this
        method in a separate task, because the task is cancelled when the session is stopped."""
        LOGGED.set(LogSession(session_id=row.id, meta=row.meta, created_at_us=row.created_at_us))
        options = RunOptions(
            root=self.team,
            config=self.config,
            context=self._context,
            status_on_cancel="ready",
            drives=False,
            serves=self._limit,
        )
        audience = self._audience
        options.live = audience is not None and audience.wants(row.id)
        task = asyncio.current_task()
        assert task is not None
        mine = self._under_way[row.id] = SessionTask(task, options)
        try:
            with nullcontext() if audience is None else audience.showing(row.id):
                await self._run(options, claim, row)
        except LeaseLost:
            _log.warning(
                "session %s is lost: its lease expired, or another process took it over", row.id
            )
        except StoreError as exc:
            _log.warning("session %s is left for later: %s", row.id, exc)
            await self.rest()
        except Exception:
            _log.exception("session %s cannot be advanced", row.id)
            await self.rest()
        finally:
            # After a lost lease, the session may have been claimed again by another task here.
            if self._under_way.get(row.id) is mine:
                del self._under_way[row.id]

    async def rest(self) -> None:
        """Pause after a failure. The pause ends early if the worker is stopping."""
        await _rest(self.stopping)

    async def _run(self, options: RunOptions, claim: Claim, row: SessionRow) -> None:
        audience = self._audience
        async with resumed_run(options, self.store, claim, row) as run:
            async for shown in advance(run):
                if audience is not None:
                    audience.show(row.id, shown)
        if run.outcome is not None:
            self.finished += 1
        if run.exception is not None:
            _log.warning("session %s failed: %s", row.id, run.exception)


async def once_reachable(
    begin: Callable[[], Awaitable[None]], url: str, stopping: asyncio.Event | None = None
) -> bool:
    """Call `begin` again until the database at `url` is reachable.

    Each new reason for waiting is logged once. Returns `False` if `stopping` was set first. Raises
    every other error of `begin`.
    """
    reason, stopping = "", stopping or asyncio.Event()
    while True:
        try:
            await begin()
        except StoreUnavailable as exc:
            if not exc.is_disconnected:
                raise
            if str(exc) != reason:
                reason = str(exc)
                _log.warning("waiting for the database: %s", reason)
            await _rest(stopping)
        else:
            if reason:
                _log.info("the database at %s can be reached", url)
            return True
        if stopping.is_set():
            return False


async def _rest(stopping: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_S):
            await stopping.wait()


_GAP_S = 0.1
"""The minimum number of seconds between two reads of the requests."""
_LONGEST_S = 10.0
"""The maximum number of seconds between two reads."""
_RETRY_S = 1.0
"""Seconds until the next read after a request was found."""
_STOP_HERE_TIMEOUT_S = 1.0
"""Seconds to wait for a run to stop. After that, the request stays and is tried again later."""

StopHere = Callable[[str], Awaitable[bool]]
"""A function that stops the run of a session in this process, and returns whether there was such a
run."""


class Stops:
    """Serves stop requests. Any number of processes may use this class for one store. Each request
    is served once."""

    def __init__(self, store_worker: StoreWorker, *, also: StopHere | None = None) -> None:
        """`also` is a function that stops runs of this process outside of the store worker."""
        self._store_worker = store_worker
        self._also = also

    async def run(self) -> None:
        """Serve requests soon after they are stored, until this call is cancelled."""
        longest_s = _LONGEST_S
        while True:
            try:
                await self._store_worker.hint(longest_s, about={STOPS})
                longest_s = _RETRY_S if await self.once() else _LONGEST_S
            except StoreError as exc:
                _log.warning("stop requests could not be checked, trying again: %s", exc)
                await asyncio.sleep(_RETRY_S)
            except Exception:
                _log.exception("stop requests could not be checked, trying again")
                await asyncio.sleep(_RETRY_S)
            await asyncio.sleep(_GAP_S)

    async def once(self) -> bool:
        """Serve all stored requests, and return whether there were requests."""
        after = ""
        while requests := await stop_requests(self._store_worker.store, after=after):
            # A failing request must not cancel the others; the first error is raised afterwards.
            served = await asyncio.gather(*map(self._serve, requests), return_exceptions=True)
            for each in served:
                if isinstance(each, BaseException):
                    raise each
            after = requests[-1].session_id
        return after != ""

    async def _serve(self, request: StopRequest) -> None:
        store, session_id = self._store_worker.store, request.session_id
        try:
            row = await store.get(session_id)
            if row.agent not in self._store_worker.team:
                return  # A process with this agent serves the request.
            if request.is_about(row) and not await self._stop(request):
                return
        except SessionNotFound:
            pass
        except (SessionBusy, UnknownAgent):
            return  # The process that runs the session, or knows its agent, serves the request.
        # A newer request for the same session has another version, and is kept.
        with suppress(StaleDocument):
            await store.write_documents([removal(request)])

    async def _stop(self, request: StopRequest) -> bool:
        """Stop the run; returns whether it is certainly stopped."""
        session_id, store_worker = request.session_id, self._store_worker
        was_here = await store_worker.stop_session(session_id, timeout_s=_STOP_HERE_TIMEOUT_S)
        if not was_here and self._also is not None:
            await self._also(session_id)
        if request.answers is not None:
            await abandon(store_worker.store, session_id, request.answers, only_ready=True)
        elif request.is_about(await store_worker.store.get(session_id)):
            # No process ran the session, or it was released before its first step.
            await stop_suspended(
                store_worker.store, store_worker.team, store_worker.config, session_id
            )
        return not request.is_about(await store_worker.store.get(session_id))


async def stop_suspended(store: Store, team: Team, config: RunConfig, session_id: str) -> None:
    """Stop a run that no process works on, because it waits for an answer or for a worker.

    Raises `SessionBusy` if the session is running, and `UnknownAgent` if a process with another
    team must stop the run. After an error the session is unchanged.
    """
    options = RunOptions(
        root=team, config=replace(config, on_busy="refuse"), status_on_cancel="idle", drives=False
    )
    try:
        async with resumed(options, Session(session_id, store=store)):
            pass  # Leaving the body suspends the run.
    except UnknownAgent:
        raise
    except UserError:
        pass  # The run has already ended.
