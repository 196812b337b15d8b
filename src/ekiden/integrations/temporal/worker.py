"""The Temporal engine: serves the sessions of one store or several through one cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker as SdkWorker

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreError
from ekiden.core.profile import check_labels
from ekiden.core.values import owner_name
from ekiden.engine.fleet import BackgroundWork
from ekiden.engine.registry import served_agents
from ekiden.engine.store_worker import Audience, StoreWorker, once_reachable
from ekiden.engine.worker import background_work
from ekiden.integrations.temporal.activities import BEATS, Activities
from ekiden.integrations.temporal.connection import (
    TemporalAddress,
    WorkerVersion,
    connect,
    deployment,
    make_current,
)
from ekiden.integrations.temporal.names import (
    SessionJob,
    care_queue,
    labels_of,
    register,
    served_queues,
    store_name,
)
from ekiden.integrations.temporal.relay import WorkflowSignaller
from ekiden.integrations.temporal.workflows import SessionWorkflow, TimekeeperWorkflow
from ekiden.runtime import RunConfig
from ekiden.runtime.questions.questions import pauses
from ekiden.runtime.state.calls import to_the_end
from ekiden.sessions.retention import Retention
from ekiden.storage.base import SessionFilter, Store

_log = logging.getLogger("ekiden.temporal")

_IDLE_S = 0.2


class TemporalFleet:
    """Runs sessions of several stores when Temporal schedules them. You can add and remove stores.

    The methods are the same as in `ekiden.engine.fleet.Fleet`. Each store has its own task queues,
    so that no store can use the capacity of another.
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
        return sum(len(store_worker.under_way) for store_worker in self._branches)

    @property
    def finished(self) -> int:
        """The number of sessions that were run to an outcome."""
        return sum(store_worker.finished for store_worker in self._branches)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self.stopping.is_set()

    def add(self, store_worker: StoreWorker, *background: BackgroundWork) -> None:
        """Serve the store of `store_worker`. `background` runs in parallel, and must
        not raise exceptions."""
        store_worker.stopping = self.stopping
        branch = self._branches[store_worker] = TemporalStoreWorker(
            store_worker, background, self._terms
        )
        if self._client is not None:
            self._begin(branch, self._client)

    async def remove(self, store_worker: StoreWorker) -> None:
        """Stop serving the store of `store_worker`. Other workers continue its running sessions."""
        self._branches.pop(store_worker, None)
        task = self._tasks.pop(store_worker, None)
        self._news.set()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def stop(self) -> None:
        """Claim no further session, and end when the current sessions are done."""
        self.stopping.set()
        self._news.set()

    async def run(
        self, *, until_idle: bool = False, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Work until `stop` is called. With `until_idle` also end when no session is ready, running
        here, or waiting for a retry. `ready` is called when the connection to Temporal works.

        Raises `TemporalUnavailable` if the cluster does not answer, and `UserError` for an unknown
        namespace. If the call is cancelled, other workers can continue the current sessions at
        once.
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
            for store_worker, task in list(self._tasks.items()):
                if task.done():
                    del self._tasks[store_worker]
                    task.result()

    def _begin(self, branch: TemporalStoreWorker, client: Client) -> None:
        running = branch.run(client, self.stopping, indexed=self._is_indexed)
        self._tasks[branch.store_worker] = asyncio.create_task(running)
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

    The store holds the sessions, as with every engine. A claim with an epoch and a lease protects
    each session, even if Temporal runs an activity twice. Any number of workers may use one store
    and one cluster; all workers of a task queue must serve the same team. Agents that need labels
    run only on workers with these labels::

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
        self._store_worker = StoreWorker(
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
            self._store_worker,
            *background_work(
                self._store_worker,
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
        return self._store_worker.finished

    def stop(self) -> None:
        """Claim no further session, and end when the current sessions are done."""
        self._fleet.stop()

    async def cancel(self, session_id: str) -> bool:
        """Stop working on the session. The session is not changed, and can be resumed. Returns
        whether this worker was running the session."""
        return await self._store_worker.stop_session(session_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop` is called. With `until_idle` also end when no session is ready, running
        here, or waiting for a retry.

        If the database is unreachable, the worker waits for it. Other store failures raise
        `StoreError`. Raises `TemporalUnavailable` if the cluster does not answer, and `UserError`
        for an unknown namespace. If the call is cancelled, other workers can continue the sessions
        of this worker at once.
        """
        if await once_reachable(self._store.open, self._store.url, self._fleet.stopping):
            await self._fleet.run(until_idle=until_idle)


_PATIENCE = timedelta(days=30)
"""How long sessions under way are waited for when the worker stops; who has less cancels `run`."""
_LEASES_TO_HEARTBEAT = 2 / 3
_SHORTEST_HEARTBEAT_S = 1.0
_LONGEST_HEARTBEAT_S = 10.0
_CARE_AT_ONCE = 2
_STICKY = timedelta(seconds=1)
"""So long a workflow waits for the worker that has it in its cache, which may have been killed."""
_POLLS = 10
_POLLS_FOR_ALL = 0.5
"""Of the polls for workflow tasks, the part for those that any worker may take: new sessions, and
all of a worker that was killed. The SDK has one poll for them, and they would stand in line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSettings:
    """Settings of workers and workflows; the same for all stores of a worker."""

    queue: str = "ekiden"
    """The prefix of the names of task queues; the name of the store follows it."""
    concurrency: int = 16
    linger_s: float = 0.0
    """How long the workflow of a session stays open without work."""
    rounds: int = 1000
    """After this many messages or answers the workflow continues as new."""
    look_s: float = 3600.0
    """After this many seconds a waiting session is checked even without a signal."""
    version: WorkerVersion | None = None


class TemporalStoreWorker:
    """Serves the sessions of one store, those of the agents that `store_worker` serves."""

    def __init__(
        self,
        store_worker: StoreWorker,
        background: Sequence[BackgroundWork],
        terms: TemporalSettings,
    ) -> None:
        self.store_worker = store_worker
        self._background = background
        self._terms = terms
        self._labels = {agent.name: labels_of(agent) for agent in store_worker.team}

    async def run(self, client: Client, ending: asyncio.Event, *, indexed: bool) -> None:
        """Work until `ending` is set, and then to the end of what is under way.

        When it is cancelled, sessions under way are left to others at once.
        """
        job = await self._first_job(ending, indexed=indexed)
        if job is None:
            return
        activities = Activities(self.store_worker, self._labels, queue=job.queue)
        workers = self._workers(client, job.queue, activities)
        working = [asyncio.create_task(worker.run()) for worker in workers]
        background = self._start_background(client, job)
        steering = asyncio.create_task(self._steer(client, job.queue))
        is_cancelled = True
        try:
            await _first(asyncio.create_task(ending.wait()), [*working, steering])
            is_cancelled = False
        finally:
            await to_the_end(_end_all([*background, steering]))
            # Nothing new is taken before what is under way is left: otherwise it would come back.
            shutting = asyncio.create_task(_shut_down(workers, working))
            if is_cancelled:
                await to_the_end(activities.leave_all())
            await to_the_end(_ended(shutting))
        for task in working:
            task.result()
        if not steering.cancelled():
            steering.result()

    async def has_work(self) -> bool:
        """Whether a session that can be run here is ready or under way, or any pauses before it
        tries something again."""
        # One that begins to pause, or goes on, between two looks is found by the next.
        return (
            await self._has_ready()
            or await pauses(self.store_worker.store)
            or await self._has_ready()
        )

    async def _has_ready(self) -> bool:
        if self.store_worker.under_way:
            return True
        cursor = None
        while True:
            page = await self.store_worker.store.list(SessionFilter(status="ready"), cursor=cursor)
            if any(row.agent in self.store_worker.serves for row in page.sessions):
                return True
            cursor = page.next_cursor
            if cursor is None:
                return False

    async def _first_job(self, ending: asyncio.Event, *, indexed: bool) -> SessionJob | None:
        """Like `_job`, as soon as the store can be used; `None` if all is over before."""
        while not ending.is_set():
            try:
                return await self._job(indexed)
            except StoreError as exc:
                name = self.store_worker.name or self.store_worker.store.url
                _log.warning("the store of %s cannot be used, trying again: %s", name, exc)
                await self.store_worker.rest()
        return None

    async def _job(self, indexed: bool) -> SessionJob:
        """What workflows are started with, but for the session and its agent."""
        name = await store_name(self.store_worker.store)
        terms = self._terms
        return SessionJob(
            session="",
            agent="",
            queue=f"{terms.queue}-{name}",
            store=name,
            heartbeat_s=_heartbeat_s(self.store_worker.config.lease_s),
            linger_s=terms.linger_s,
            rounds=terms.rounds,
            look_s=terms.look_s,
            indexed=indexed,
        )

    def _start_background(self, client: Client, job: SessionJob) -> list[asyncio.Task[None]]:
        relay = WorkflowSignaller(self.store_worker.store, client, job=job, labels=self._labels)
        return [asyncio.create_task(begin()) for begin in (relay.run, *self._background)]

    async def _steer(self, client: Client, queue: str) -> None:
        """See to it that tasks come; ends only if that cannot be."""
        if self._terms.version is not None:
            await make_current(client, queue, self._terms.version)
        await asyncio.Event().wait()

    def _workers(self, client: Client, queue: str, activities: Activities) -> list[SdkWorker]:
        """One for each task queue: that of the store, those of labels, and that of timers."""
        # The SDK would hold heartbeats back until little of the time is left, and whoever is late
        # then because the machine is busy is taken for dead.
        beat = timedelta(seconds=_heartbeat_s(self.store_worker.config.lease_s) / BEATS)
        version = deployment(queue, self._terms.version)
        # Without a build id the SDK hashes the code of all modules, which holds up the event loop
        # for seconds at each start. Workflows are code of Ekiden alone.
        build_id = WorkerVersion().build_id if version is None else None
        needed = {name: self._labels[name] for name in self.store_worker.serves}
        workers = [
            SdkWorker(
                client,
                task_queue=name,
                workflows=[SessionWorkflow, TimekeeperWorkflow] if name == queue else [],
                activities=[activities.advance] if agents else [],
                identity=owner_name(),
                max_concurrent_activities=self._terms.concurrency,
                max_heartbeat_throttle_interval=beat,
                max_concurrent_workflow_task_polls=_POLLS,
                nonsticky_to_sticky_poll_ratio=_POLLS_FOR_ALL,
                sticky_queue_schedule_to_start_timeout=_STICKY,
                graceful_shutdown_timeout=_PATIENCE,
                build_id=build_id,
                deployment_config=version,
            )
            for name, agents in served_queues(queue, needed).items()
        ]
        workers.append(
            SdkWorker(
                client,
                task_queue=care_queue(queue),
                activities=[activities.run_timers, activities.leave],
                max_concurrent_activities=_CARE_AT_ONCE,
                max_concurrent_activity_task_polls=_CARE_AT_ONCE,
                graceful_shutdown_timeout=_PATIENCE,
                build_id=build_id,
                deployment_config=version,
            )
        )
        return workers


def _heartbeat_s(lease_s: float) -> float:
    """After how long a worker that is not heard of is taken for dead: before its leases are over,
    so that these decide, and soon enough for a task that got lost on its way to a worker."""
    heartbeat_s = min(lease_s * _LEASES_TO_HEARTBEAT, _LONGEST_HEARTBEAT_S)
    return max(heartbeat_s, _SHORTEST_HEARTBEAT_S)


async def _first(own: asyncio.Task[bool], others: Sequence[asyncio.Task[None]]) -> None:
    """Return when the task is over, or one of the others."""
    try:
        await asyncio.wait({own, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        own.cancel()


async def _end_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _ended(task: asyncio.Task[None]) -> None:
    await task


async def _shut_down(workers: Sequence[SdkWorker], working: Sequence[asyncio.Task[None]]) -> None:
    """Let the SDK's workers end what they do; one that failed has ended already."""
    running = [
        worker.shutdown() for worker, task in zip(workers, working, strict=True) if not task.done()
    ]
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.wait(working)
