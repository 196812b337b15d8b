"""The Temporal engine: serves one store or several through one cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from temporalio.client import Client

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreError
from ekiden.core.profile import check_labels
from ekiden.engine.fleet import BackgroundWork
from ekiden.engine.registry import served_agents
from ekiden.engine.store_worker import Audience, StoreWorker, once_reachable
from ekiden.engine.worker import background_work
from ekiden.integrations.temporal.connection import TemporalAddress, WorkerVersion, connect
from ekiden.integrations.temporal.names import register
from ekiden.integrations.temporal.store_worker import TemporalSettings, TemporalStoreWorker
from ekiden.runtime import RunConfig
from ekiden.sessions.retention import Retention
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.temporal")

_IDLE_S = 0.2


class TemporalFleet:
    """Runs sessions of several stores when Temporal schedules them. You can add and remove stores.

    It has the same methods as `ekiden.engine.fleet.Fleet`. Each store has its own task queues, so
    that no store can use the capacity of another.
    """

    def __init__(
        self,
        *,
        address: TemporalAddress,
        terms: TemporalSettings,
        client: Client | None = None,
    ) -> None:
        """`client`: used instead of connecting, for one with a codec of its own."""
        self._address = address
        self._terms = terms
        self._given = client
        self._client: Client | None = None
        self._is_indexed = False
        self._branches: dict[StoreWorker, TemporalStoreWorker] = {}
        self._tasks: dict[StoreWorker, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self.stopping = asyncio.Event()
        """Set when no further session is to be taken."""

    @property
    def concurrency(self) -> int:
        """The maximum number of concurrent sessions of each task queue."""
        return self._terms.concurrency

    @property
    def store_workers(self) -> Sequence[StoreWorker]:
        """The store workers that are served."""
        return list(self._branches)

    @property
    def running(self) -> int:
        """The number of sessions that are running now."""
        return sum(len(station.under_way) for station in self._branches)

    @property
    def finished(self) -> int:
        """The number of sessions that were run to an outcome."""
        return sum(station.finished for station in self._branches)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self.stopping.is_set()

    def add(self, station: StoreWorker, *beside: BackgroundWork) -> None:
        """Serve the store of `station`. The background work in `beside` runs in parallel, and must
        not raise exceptions."""
        station.stopping = self.stopping
        branch = self._branches[station] = TemporalStoreWorker(station, beside, self._terms)
        if self._client is not None:
            self._begin(branch, self._client)

    async def remove(self, station: StoreWorker) -> None:
        """Stop serving the store of `station`. Other workers continue its running sessions."""
        self._branches.pop(station, None)
        task = self._tasks.pop(station, None)
        self._news.set()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def stop(self) -> None:
        """Take no further session and end when those under way are done."""
        self.stopping.set()
        self._news.set()

    async def run(
        self, *, until_idle: bool = False, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Work until `stop` is called. With `until_idle` also end when no session is ready, running
        here, or waiting for a retry. `ready` is called when the connection to Temporal works.

        Raises `TemporalUnavailable` if the cluster does not answer, and `UserError` for an unknown
        namespace. If the call is cancelled, other workers can continue its sessions at once.
        """
        client = self._given or await connect(self._address)
        self._is_indexed = await register(client)
        self._client = client
        ready()
        idle = asyncio.create_task(self._idle()) if until_idle else None
        try:
            for branch in self._branches.values():
                self._begin(branch, client)
            await self._work()
        finally:
            self._client = None
            if idle is not None:
                idle.cancel()
                await asyncio.gather(idle, return_exceptions=True)
            tasks, self._tasks = list(self._tasks.values()), {}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        """Wait until all store workers have ended; a fatal error of one ends all."""
        while not self.stopping.is_set() or self._tasks:
            news = asyncio.create_task(self._news.wait())
            try:
                await asyncio.wait(
                    {news, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                news.cancel()
            self._news.clear()
            for station, task in list(self._tasks.items()):
                if task.done():
                    del self._tasks[station]
                    task.result()

    def _begin(self, branch: TemporalStoreWorker, client: Client) -> None:
        running = branch.run(client, self.stopping, indexed=self._is_indexed)
        self._tasks[branch.station] = asyncio.create_task(running)
        self._news.set()

    async def _idle(self) -> None:
        """Stop when nothing is left to do now."""
        while True:
            try:
                if not any([await branch.has_work() for branch in self._branches.values()]):
                    self.stop()
                    return
            except StoreError as exc:
                _log.warning("ready sessions could not be looked for, trying again: %s", exc)
            except Exception:
                _log.exception("ready sessions could not be looked for, trying again")
            await asyncio.sleep(_IDLE_S)


class TemporalWorker:
    """Runs the sessions of a store when Temporal schedules them, up to `concurrency` at a time on
    each of its task queues.

    As with every engine, the store holds the sessions, and a claim with an epoch and a lease
    protects each session, even if Temporal runs an activity twice. Any number of workers may use
    one store and one cluster; all workers of a task queue must serve the same team. Agents that
    need labels run only on workers with these labels::

        await submit(team, "Where is my parcel?", session=Session("s1", store=store))
        await TemporalWorker(store, team, address="localhost:7233").run(until_idle=True)
    """

    def __init__(
        self,
        store: Store,
        team: Agent[Any] | Team,
        *,
        address: str | TemporalAddress = "localhost:7233",
        client: Client | None = None,
        queue: str = "ekiden",
        labels: Iterable[str] = (),
        concurrency: int = 16,
        context: Any = None,
        run_config: RunConfig | None = None,
        retention: Retention | None = None,
        audience: Audience | None = None,
        linger_s: float = 0.0,
        rounds: int = 1000,
        look_s: float = 3600.0,
        version: WorkerVersion | None = None,
        tenant: str = "",
    ) -> None:
        """`client`: used instead of connecting to `address`, for one with a codec of its own.
        `queue`: with what the name of the task queue begins; the store's follows. `linger_s`: how
        long the workflow of a session stays open when there is nothing to do. `rounds`: after how
        many messages or answers it continues as new. `look_s`: after how long a session that waits
        is looked at, though nobody signalled. With `version` tasks are given to the worker
        by Temporal's worker versioning."""
        members = team if isinstance(team, Team) else Team(team)
        found = check_labels(labels, "the labels of a worker")
        where = address if isinstance(address, TemporalAddress) else TemporalAddress(address)
        terms = TemporalSettings(
            queue=queue,
            concurrency=concurrency,
            linger_s=linger_s,
            rounds=rounds,
            look_s=look_s,
            version=version,
        )
        self._store = store
        self._station = StoreWorker(
            store,
            members,
            serves=served_agents(members, labels=found),
            config=run_config or RunConfig(),
            context=context,
            audience=audience,
            name=tenant,
        )
        self._fleet = TemporalFleet(address=where, terms=terms, client=client)
        self._fleet.add(
            self._station,
            *background_work(
                self._station,
                self._fleet,
                retention=retention or Retention(),
                labels=found,
                engine="temporal",
                keeps_time=False,
            ),
        )

    @property
    def finished(self) -> int:
        """The number of sessions that this worker has run to an outcome."""
        return self._station.finished

    def stop(self) -> None:
        """Take no further session and end when those under way are done."""
        self._fleet.stop()

    async def cancel(self, session_id: str) -> bool:
        """Stop working on the session. It is not changed and can be resumed. Returns whether this
        worker was running it."""
        return await self._station.stop_session(session_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop` is called. With `until_idle` also end when no session is ready, running
        here, or waiting for a retry.

        If the database is unreachable, the worker waits for it. Other store failures raise
        `StoreError`. Raises `TemporalUnavailable` if the cluster does not answer, and `UserError`
        for an unknown namespace. If the call is cancelled, other workers can continue its sessions
        at once.
        """
        if await once_reachable(self._store.open, self._store.url, self._fleet.stopping):
            await self._fleet.run(until_idle=until_idle)
