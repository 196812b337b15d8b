"""Claims the sessions of one store and advances them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from ekiden.core.agent import Team
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.current_agent import LOGGED
from ekiden.core.errors import LeaseLost, StoreError, StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.values import owner_name
from ekiden.runtime import RunConfig, RunOptions, advance, resumed_run
from ekiden.runtime.state.calls import to_the_end
from ekiden.storage.base import Claim, SessionRow, SessionStatus, Store
from ekiden.storage.changes import LAPSE_S
from ekiden.tracing.logs import LogSession

_log = logging.getLogger("ekiden.worker")

LOOK_S = 4.0
"""After so long it is looked for work without any hint, should one have been lost."""
REST_S = 0.5
"""How long whatever is wrong gets, so that trying again does not become a busy loop."""
_PATIENCE_S = 5.0
"""How long one waits for code that was cancelled and does not end."""
_AGAIN_S = 30.0
"""After so long it is cancelled once more: before, it may be tidying up."""


class Audience(Protocol):
    """Those who watch sessions that a worker runs."""

    def wants(self, session_id: str) -> bool:
        """Whether anybody watches it now: then its models answer piece by piece."""
        ...

    def showing(self, session_id: str) -> AbstractContextManager[None]:
        """The session is run here during the body."""
        ...

    def show(self, session_id: str, shown: Event | ModelDelta) -> None:
        """Something happened in the session; events are stored already."""
        ...


@dataclass(slots=True, eq=False)
class SessionTask:
    """A task of this process that works on a session."""

    task: asyncio.Task[None]
    options: RunOptions
    cancelled_at: float | None = None
    """In the time of the loop; when it was told to stop the last time."""

    async def stop(
        self, *, status_on_cancel: SessionStatus, patience_s: float | None = None
    ) -> bool:
        """Stop it; the session is left as `status_on_cancel`, and can be resumed.

        Whether it ended within `patience_s` seconds, or five.
        """
        self.options.status_on_cancel = status_on_cancel
        now = asyncio.get_running_loop().time()
        if self.cancelled_at is None or now - self.cancelled_at >= _AGAIN_S:
            self.cancelled_at = now
            self.task.cancel()
        patience_s = _PATIENCE_S if patience_s is None else patience_s
        done, _ = await asyncio.wait({self.task}, timeout=patience_s)
        return bool(done)


class StoreWorker:
    """Runs sessions of one store with a team; who calls it decides which and how many."""

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
        """`serves`: the agents whose sessions are claimed; `name`: whose store it is, for logs.
        Without `listens` it is only looked at now and then, which costs less where hints are dear.
        """
        self.store = store
        self.team = team
        self.config = config
        self.name = name
        self.serves = frozenset(serves)
        self.stopping = asyncio.Event()
        """Set when no further session is to be taken."""
        self._agents = sorted(self.serves)
        # A worker that serves the whole team need not check after each handoff whose session it is.
        self._limit = None if len(self.serves) == len(team) else self.serves
        self._listens = listens
        self._context = context
        self._audience = audience
        self._under_way: dict[str, SessionTask] = {}
        """By session."""
        self.has_more: Callable[[], Awaitable[bool]] | None = None
        """Whether those beside it will make sessions ready before long."""
        self.finished = 0
        """Sessions advanced to an outcome here."""

    @property
    def under_way(self) -> Collection[str]:
        """The sessions that are run here."""
        return self._under_way.keys()

    async def claim(self) -> tuple[Claim, SessionRow] | None:
        """Claim the next session; a cancelled call does not leave it claimed."""
        claiming = self.store.claim_next(
            owner=owner_name(), lease_s=self.config.lease_s, agents=self._agents
        )
        # The store may have claimed a session just before the cancellation arrives. So the call is
        # awaited to its end, and a claim that nobody wants is released.
        claimed, cancelled = await to_the_end(claiming)
        if cancelled is not None:
            if claimed is not None:
                await self.store.release(claimed[0])
            raise cancelled
        return claimed

    async def ready(self, *, slower: float, has_room: Callable[[], bool]) -> None:
        """Return when a session may be there to be claimed, or it is time to look without a hint,
        which is so many times `slower` than for one store.

        `has_room`: whether one would be taken; else another process is told.
        """
        if self._listens:
            # A lease that runs out sends no hint. Looking once per lease finds the sessions of dead
            # processes.
            longest_s = min(LOOK_S, self.config.lease_s + REST_S) * slower
            await self.store.wait_for_ready(self._agents, longest_s, has_room=has_room)
        else:
            await asyncio.sleep(LAPSE_S * slower)

    async def hint(self, longest_s: float, *, about: Collection[str]) -> None:
        """Return when a document in one of these collections may have changed, after so long at
        the latest."""
        if self._listens:
            await self.store.wait_for_change(longest_s, about=about)
        else:
            await asyncio.sleep(min(longest_s, 2 * LAPSE_S))

    async def stop_session(
        self,
        session_id: str,
        *,
        status_on_cancel: SessionStatus = "idle",
        patience_s: float | None = None,
    ) -> bool:
        """Stop working on the session, which stays as it is and can be resumed; whether it was run
        here, and is no more.

        Code that does not let go is waited for `patience_s` seconds, or five. What was claimed and
        not begun is only released: its row tells whether it is left as it should be.
        """
        found = self._under_way.get(session_id)
        return found is not None and await found.stop(
            status_on_cancel=status_on_cancel, patience_s=patience_s
        )

    async def advance(self, claim: Claim, row: SessionRow) -> None:
        """Take the session to an outcome, or as far as it can be, as all that the running task
        does; what goes wrong is logged."""
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
                await self._take_up(options, claim, row)
        except LeaseLost:
            _log.warning(
                "session %s is no longer ours: its lease expired, or another process took it over",
                row.id,
            )
        except StoreError as exc:
            _log.warning("session %s is left for later: %s", row.id, exc)
            await self.rest()
        except Exception:
            _log.exception("session %s cannot be advanced", row.id)
            await self.rest()
        finally:
            if self._under_way.get(row.id) is mine:  # Or it was lost, and taken again.
                del self._under_way[row.id]

    async def rest(self) -> None:
        """Wait a moment, unless it is all over."""
        await _rest(self.stopping)

    async def _take_up(self, options: RunOptions, claim: Claim, row: SessionRow) -> None:
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
    """Call `begin` until it does not find the database at `url` unreachable.

    Each new reason for waiting is logged once. Returns `False` if `stopping` was set first; every
    other error of `begin` is raised.
    """
    told, stopping = "", stopping or asyncio.Event()
    while True:
        try:
            await begin()
        except StoreUnavailable as exc:
            if not exc.is_disconnected:
                raise
            if str(exc) != told:
                told = str(exc)
                _log.warning("waiting for the database: %s", told)
            await _rest(stopping)
        else:
            if told:
                _log.info("the database at %s can be reached", url)
            return True
        if stopping.is_set():
            return False


async def _rest(stopping: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_S):
            await stopping.wait()
