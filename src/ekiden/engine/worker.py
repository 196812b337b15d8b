"""The worker engine: several processes share the sessions of one store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol

from ekiden.core.agent import Agent
from ekiden.core.errors import LeaseLost, StoreError
from ekiden.core.events import Event
from ekiden.core.model import ModelDelta
from ekiden.core.retention import Retention
from ekiden.core.team import Team
from ekiden.engine.housekeeping import Housekeeping
from ekiden.engine.posting import Posting
from ekiden.runtime import Circumstances, RunConfig, advance, taken_up
from ekiden.runtime.calls import to_the_end
from ekiden.runtime.leases import owner_name
from ekiden.runtime.timekeeping import run_timers, seconds_to_timer
from ekiden.storage.base import Claim, SessionRow, Store
from ekiden.tracing.log_context import LogSession, bind_log_session

_log = logging.getLogger("ekiden.worker")

_REST_S = 0.5
_TIMERS_S = 0.5
"""After so long timers are looked at, if none is due before."""
_IDLE_S = 1.0
"""How long to wait for a hint of work before looking anyway: expired leases send no hint."""


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


class Worker:
    """Claims `ready` sessions and advances each to an outcome, `concurrency` of them at a time.

    It takes the sessions that an agent of its team has and leaves the others to other workers.
    Any number of workers may use one store: a session is claimed by one of them, and a session
    whose worker died is taken over when its lease has run out; those of a worker whose `run` is
    cancelled, at once::

        await submit(team, "Where is my parcel?", session=Session("s1", store=store))
        await Worker(store, team).run(until_idle=True)
    """

    def __init__(
        self,
        store: Store,
        team: Agent[Any] | Team,
        *,
        concurrency: int = 16,
        context: Any = None,
        run_config: RunConfig | None = None,
        retention: Retention | None = None,
        audience: Audience | None = None,
    ) -> None:
        """With `retention` it also lets go of what is old, at most once an hour."""
        self._audience = audience
        self._store = store
        self._housekeeping = Housekeeping(store, retention or Retention())
        self._team = team if isinstance(team, Team) else Team(team)
        self._agents = [agent.name for agent in self._team]
        self._concurrency = concurrency
        self._context = context
        self._config = run_config or RunConfig()
        self._stopping = asyncio.Event()
        self._under_way: dict[str, tuple[asyncio.Task[None], Circumstances]] = {}
        """By session."""
        self.finished = 0
        """Sessions advanced to an outcome by this worker."""

    def stop(self) -> None:
        """Take no further session and end when those under way are done."""
        self._stopping.set()

    async def cancel(self, session_id: str) -> bool:
        """Stop working on the session, which stays as it is and can be resumed; whether this worker
        had it."""
        found = self._under_way.get(session_id)
        if found is None:
            return False
        task, around = found
        around.left_as = "idle"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop`; with `until_idle` also end when no session is ready or under way."""
        await self._store.open()
        await self._see_to_timers()
        beside = [
            asyncio.create_task(self._keep_time()),
            asyncio.create_task(self._housekeeping.run()),
            asyncio.create_task(Posting(self._store, self._team, self._config).run()),
        ]
        try:
            await self._work(until_idle)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _work(self, until_idle: bool) -> None:
        slots = asyncio.Semaphore(self._concurrency)
        running: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while not self._stopping.is_set():
                await slots.acquire()
                if self._stopping.is_set():
                    return
                # One that ends while the next is looked for may have left work behind.
                was_busy = bool(running)
                try:
                    claimed = await self._next()
                except StoreError as exc:
                    _log.warning("no session could be claimed, trying again: %s", exc)
                    slots.release()
                    await self._rest()
                    continue
                if claimed is not None:
                    task = group.create_task(self._advance(*claimed))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(lambda _: slots.release())
                    continue
                slots.release()
                if until_idle and not running:
                    if was_busy:
                        continue
                    return
                await self._wait(running if until_idle else ())

    async def _next(self) -> tuple[Claim, SessionRow] | None:
        claiming = self._store.claim_next(
            owner=owner_name(), lease_s=self._config.lease_s, agents=self._agents
        )
        claimed, cancelled = await to_the_end(claiming)
        if cancelled is not None:
            if claimed is not None:
                await self._store.release(claimed[0])
            raise cancelled
        return claimed

    async def _keep_time(self) -> None:
        """See to timers for ever, however busy the worker is with sessions."""
        while True:
            left_s = await self._see_to_timers()
            await asyncio.sleep(left_s)

    async def _see_to_timers(self) -> float:
        """See to what is due: time-outs of questions, deadlines of what people are asked.

        Gives the seconds after which there may be more. Whatever is wrong with a timer must not
        keep the worker from its sessions.
        """
        try:
            await run_timers(self._store)
            return await seconds_to_timer(self._store, _TIMERS_S)
        except StoreError as exc:
            _log.warning("timers could not be looked at, trying again: %s", exc)
        except Exception:
            _log.exception("a timer could not be seen to, trying again")
        return _TIMERS_S

    async def _rest(self) -> None:
        """Give whatever is wrong some time, so that trying again does not become a busy loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_REST_S):
                await self._stopping.wait()

    async def _wait(self, running: Collection[asyncio.Task[None]]) -> None:
        """Until there may be work: a hint, or the end of one of those `running`."""
        hint = asyncio.create_task(self._store.wait_for_change(_IDLE_S))
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({hint, stop, *running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (hint, stop):
                task.cancel()
            await asyncio.gather(hint, stop, return_exceptions=True)

    async def _advance(self, claim: Claim, row: SessionRow) -> None:
        bind_log_session(
            LogSession(session_id=row.id, meta=row.meta, created_at_us=row.created_at_us)
        )
        around = Circumstances(
            root=self._team,
            config=self._config,
            context=self._context,
            left_as="ready",
            drives=False,
        )
        audience = self._audience
        around.live = audience is not None and audience.wants(row.id)
        task = asyncio.current_task()
        assert task is not None
        self._under_way[row.id] = task, around
        try:
            with nullcontext() if audience is None else audience.showing(row.id):
                await self._take_up(around, claim, row)
        except LeaseLost:
            _log.warning("session %s was taken over by another process", row.id)
        except StoreError as exc:
            _log.warning("session %s is left for later: %s", row.id, exc)
            await self._rest()
        except Exception:
            _log.exception("session %s cannot be advanced", row.id)
            await self._rest()
        finally:
            self._under_way.pop(row.id, None)

    async def _take_up(self, around: Circumstances, claim: Claim, row: SessionRow) -> None:
        audience = self._audience
        async with taken_up(around, self._store, claim, row) as run:
            async for shown in advance(run):
                if audience is not None:
                    audience.show(row.id, shown)
        self.finished += 1
        if run.exception is not None:
            _log.warning("session %s failed: %s", row.id, run.exception)
