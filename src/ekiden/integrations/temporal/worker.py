"""The Temporal engine, which serves the sessions of one or more stores through one cluster."""

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
from ekiden.integrations.temporal.signaller import WorkflowSignaller
from ekiden.integrations.temporal.workflows import SessionWorkflow, TimekeeperWorkflow
from ekiden.runtime import RunConfig
from ekiden.runtime.questions.questions import pauses
from ekiden.runtime.state.calls import to_the_end
from ekiden.sessions.session import Retention
from ekiden.storage.base import SessionFilter, Store

_log = logging.getLogger("ekiden.temporal")

_IDLE_S = 0.2


class TemporalFleet:
    """Runs sessions of several stores when Temporal schedules them. You can add and remove stores.

    The methods are the same as in `ekiden.engine.fleet.Fleet`. Each store has its own task queues,
    so that no store can use the capacity of another store.
    """

    def __init__(
        self,
        *,
        address: TemporalAddress,
        terms: TemporalSettings,
        client: Client | None = None,
    ) -> None:
        """`client` is an existing client, for example with its own codec. By default a new
        connection is opened."""
        self._address = address
        self._terms = terms
        self._given_client = client
        self._client: Client | None = None
        self._is_indexed = False
        self._workers: dict[StoreWorker, TemporalStoreWorker] = {}
        self._tasks: dict[StoreWorker, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        """Set when `_tasks` changes or `stop` is called."""
        self.stopping = asyncio.Event()
        """Set when no further session may be claimed."""

    @property
    def concurrency(self) -> int:
        """The maximum number of concurrent sessions of each task queue."""
        return self._terms.concurrency

    @property
    def store_workers(self) -> Sequence[StoreWorker]:
        """The store workers of all served stores."""
        return list(self._workers)

    @property
    def running(self) -> int:
        """The number of sessions that are running now."""
        return sum(len(store_worker.under_way) for store_worker in self._workers)

    @property
    def finished(self) -> int:
        """The number of sessions that were run to an outcome."""
        return sum(store_worker.finished for store_worker in self._workers)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self.stopping.is_set()

    def add(self, store_worker: StoreWorker, *background: BackgroundWork) -> None:
        """Serve the store of `store_worker`. `background` runs in parallel, and must
        not raise exceptions."""
        store_worker.stopping = self.stopping
        worker = self._workers[store_worker] = TemporalStoreWorker(
            store_worker, background, self._terms
        )
        if self._client is not None:
            self._begin(worker, self._client)

    async def remove(self, store_worker: StoreWorker) -> None:
        """Stop serving the store of `store_worker`. Other workers continue its running sessions."""
        self._workers.pop(store_worker, None)
        task = self._tasks.pop(store_worker, None)
        self._changed.set()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def stop(self) -> None:
        """Claim no further sessions, and end when the current sessions are done."""
        self.stopping.set()
        self._changed.set()

    async def run(
        self, *, until_idle: bool = False, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Work until `stop` is called. With `until_idle`, also end when no session is ready, runs
        in this process, or waits for a retry. `ready` is called when the connection to Temporal
        works.

        Raises `TemporalUnavailable` if the cluster does not answer, and `UserError` for an unknown
        namespace. If the call is cancelled, other workers can continue the current sessions at
        once.
        """
        client = self._given_client or await connect(self._address)
        self._is_indexed = await register(client)
        self._client = client
        ready()
        idle = asyncio.create_task(self._stop_when_idle()) if until_idle else None
        try:
            for worker in self._workers.values():
                self._begin(worker, client)
            await self._wait_for_tasks()
        finally:
            self._client = None
            if idle is not None:
                idle.cancel()
                await asyncio.gather(idle, return_exceptions=True)
            tasks, self._tasks = list(self._tasks.values()), {}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_tasks(self) -> None:
        """Wait until all store workers have ended. A fatal error of one is raised."""
        while not self.stopping.is_set() or self._tasks:
            changed = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait(
                    {changed, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                changed.cancel()
            self._changed.clear()
            for store_worker, task in list(self._tasks.items()):
                if task.done():
                    del self._tasks[store_worker]
                    task.result()

    def _begin(self, worker: TemporalStoreWorker, client: Client) -> None:
        running = worker.run(client, self.stopping, indexed=self._is_indexed)
        self._tasks[worker.store_worker] = asyncio.create_task(running)
        self._changed.set()

    async def _stop_when_idle(self) -> None:
        while True:
            try:
                if not any([await worker.has_work() for worker in self._workers.values()]):
                    self.stop()
                    return
            except StoreError as exc:
                _log.warning("ready sessions could not be listed, trying again: %s", exc)
            except Exception:
                _log.exception("ready sessions could not be listed, trying again")
            await asyncio.sleep(_IDLE_S)


class TemporalWorker:
    """Runs the sessions of a store when Temporal schedules them, up to `concurrency` at a time on
    each of its task queues.

    The store holds the sessions, as with every engine. A claim with an epoch and a lease protects
    each session, even if Temporal runs an activity twice. Any number of workers may use one store
    and one cluster. All workers of a task queue must serve the same team. Agents that need labels
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
        """`client` is an existing client, for example with its own codec. Without it, the worker
        connects to `address`. `TemporalSettings` describes `queue`, `linger_s`, `rounds` and
        `look_s`. With `version`, Temporal's worker versioning decides which tasks the worker
        gets."""
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
        """Claim no further sessions, and end when the current sessions are done."""
        self._fleet.stop()

    async def cancel(self, session_id: str) -> bool:
        """Stop working on the session. The session is not changed, and can be resumed. Returns
        whether this worker was running the session."""
        return await self._store_worker.stop_session(session_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop` is called. With `until_idle`, also end when no session is ready, runs
        in this process, or waits for a retry.

        If the database is unreachable, the worker waits for it. Other store failures raise
        `StoreError`. Raises `TemporalUnavailable` if the cluster does not answer, and `UserError`
        for an unknown namespace. If the call is cancelled, other workers can continue the sessions
        of this worker at once.
        """
        if await once_reachable(self._store.open, self._store.url, self._fleet.stopping):
            await self._fleet.run(until_idle=until_idle)


_SHUTDOWN = timedelta(days=30)
"""How long a stopping worker waits for its running sessions. To wait less, cancel `run`."""
_LEASES_TO_HEARTBEAT = 2 / 3
_SHORTEST_HEARTBEAT_S = 1.0
_LONGEST_HEARTBEAT_S = 10.0
_CARE_AT_ONCE = 2
_STICKY = timedelta(seconds=1)
"""How long a workflow task waits for the worker that has the workflow in its cache. That worker may
have been killed."""
_POLLS = 10
_UNCACHED_POLLS = 0.5
"""The share of polls for workflow tasks of no particular worker: new sessions, and sessions of a
killed worker. By default the SDK has only one such poll, and these tasks would queue up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSettings:
    """Settings of workers and workflows. They are the same for all stores of a worker."""

    queue: str = "ekiden"
    """The prefix of the names of task queues. The name of the store follows the prefix."""
    concurrency: int = 16
    linger_s: float = 0.0
    """Seconds for which the workflow of a session stays open without work."""
    rounds: int = 1000
    """The workflow continues as new after this many activities, or earlier if Temporal suggests
    it."""
    look_s: float = 3600.0
    """A waiting session is checked after this many seconds, even without a signal."""
    version: WorkerVersion | None = None


class TemporalStoreWorker:
    """Serves the sessions of one store. It runs the agents that `store_worker` serves."""

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

    async def run(self, client: Client, stopping: asyncio.Event, *, indexed: bool) -> None:
        """Work until `stopping` is set, and then until the running sessions are done.

        If the call is cancelled, other workers resume the running sessions at once.
        """
        job = await self._wait_for_job(stopping, indexed=indexed)
        if job is None:
            return
        activities = Activities(self.store_worker, self._labels, queue=job.queue)
        workers = self._sdk_workers(client, job.queue, activities)
        working = [asyncio.create_task(worker.run()) for worker in workers]
        signaller = WorkflowSignaller(self.store_worker.store, client, job=job, labels=self._labels)
        background = [asyncio.create_task(run()) for run in (signaller.run, *self._background)]
        version = asyncio.create_task(self._keep_version_current(client, job.queue))
        is_cancelled = True
        try:
            await _wait_for_any(asyncio.create_task(stopping.wait()), [*working, version])
            is_cancelled = False
        finally:
            await to_the_end(_end_all([*background, version]))
            # The workers stop polling before `leave_all`. Otherwise Temporal would give the
            # sessions back to this worker.
            shutdown = asyncio.create_task(_shut_down(workers, working))
            if is_cancelled:
                await to_the_end(activities.leave_all())
            await to_the_end(_await_task(shutdown))
        for task in working:
            task.result()
        if not version.cancelled():
            version.result()

    async def has_work(self) -> bool:
        """Whether a session is ready, runs in this process, or waits for a retry."""
        # A session may begin or end its wait between the checks, so `ready` is checked twice.
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

    async def _wait_for_job(self, stopping: asyncio.Event, *, indexed: bool) -> SessionJob | None:
        """Wait for the store, and return `_job`; `None` if the worker stops before."""
        while not stopping.is_set():
            try:
                return await self._job(indexed)
            except StoreError as exc:
                name = self.store_worker.name or self.store_worker.store.url
                _log.warning("the store of %s cannot be used, trying again: %s", name, exc)
                await self.store_worker.rest()
        return None

    async def _job(self, indexed: bool) -> SessionJob:
        """The input of all workflows, without session and agent."""
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

    async def _keep_version_current(self, client: Client, queue: str) -> None:
        """Make the version current, if one is set. Ends only with an error."""
        if self._terms.version is not None:
            await make_current(client, queue, self._terms.version)
        await asyncio.Event().wait()

    def _sdk_workers(self, client: Client, queue: str, activities: Activities) -> list[SdkWorker]:
        """One worker for each task queue: of the store, of each set of labels, and for timers."""
        # By default the SDK delays heartbeats until shortly before the timeout. On a busy machine
        # they would then be late, and the worker would be considered dead.
        beat = timedelta(seconds=_heartbeat_s(self.store_worker.config.lease_s) / BEATS)
        versioned = self._terms.version
        version = None if versioned is None else versioned.deployment_config(queue)
        # Without a build id the SDK hashes the code of all modules, which blocks the event loop for
        # seconds at each start. Only Ekiden's own code runs in workflows.
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
                nonsticky_to_sticky_poll_ratio=_UNCACHED_POLLS,
                sticky_queue_schedule_to_start_timeout=_STICKY,
                graceful_shutdown_timeout=_SHUTDOWN,
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
                graceful_shutdown_timeout=_SHUTDOWN,
                build_id=build_id,
                deployment_config=version,
            )
        )
        return workers


def _heartbeat_s(lease_s: float) -> float:
    """The heartbeat timeout of activities. It is shorter than the lease, so that the lease decides
    when another worker may write, and short enough for tasks that were lost before a worker got
    them."""
    heartbeat_s = min(lease_s * _LEASES_TO_HEARTBEAT, _LONGEST_HEARTBEAT_S)
    return max(heartbeat_s, _SHORTEST_HEARTBEAT_S)


async def _wait_for_any(stopping: asyncio.Task[bool], others: Sequence[asyncio.Task[None]]) -> None:
    try:
        await asyncio.wait({stopping, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()


async def _end_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _await_task(task: asyncio.Task[None]) -> None:
    await task


async def _shut_down(workers: Sequence[SdkWorker], working: Sequence[asyncio.Task[None]]) -> None:
    """Stop the SDK's workers gracefully; a failed worker has ended already."""
    running = [
        worker.shutdown() for worker, task in zip(workers, working, strict=True) if not task.done()
    ]
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.wait(working)
