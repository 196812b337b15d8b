"""Serves the sessions of one store through Temporal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker as SdkWorker

from ekiden.core.errors import StoreError
from ekiden.core.values import owner_name
from ekiden.engine.fleet import BackgroundWork
from ekiden.engine.store_worker import StoreWorker
from ekiden.integrations.temporal.activities import BEATS, Activities
from ekiden.integrations.temporal.connection import WorkerVersion, deployment, make_current
from ekiden.integrations.temporal.names import (
    SessionJob,
    care_queue,
    labels_of,
    served_queues,
    store_name,
)
from ekiden.integrations.temporal.relay import WorkflowSignaller
from ekiden.integrations.temporal.workflows import SessionWorkflow, TimekeeperWorkflow
from ekiden.runtime.questions.questions import pauses
from ekiden.runtime.state.calls import to_the_end
from ekiden.storage.base import SessionFilter

_log = logging.getLogger("ekiden.temporal")

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
    """Serves the sessions of a station, whose agents are those it `serves`."""

    def __init__(
        self, station: StoreWorker, beside: Sequence[BackgroundWork], terms: TemporalSettings
    ) -> None:
        self.station = station
        self._beside = beside
        self._terms = terms
        self._labels = {agent.name: labels_of(agent) for agent in station.team}

    async def run(self, client: Client, ending: asyncio.Event, *, indexed: bool) -> None:
        """Work until `ending` is set, and then to the end of what is under way.

        When it is cancelled, sessions under way are left to others at once.
        """
        job = await self._first_job(ending, indexed=indexed)
        if job is None:
            return
        activities = Activities(self.station, self._labels, queue=job.queue)
        workers = self._workers(client, job.queue, activities)
        working = [asyncio.create_task(worker.run()) for worker in workers]
        beside = self._begin_beside(client, job)
        steering = asyncio.create_task(self._steer(client, job.queue))
        is_cancelled = True
        try:
            await _first(asyncio.create_task(ending.wait()), [*working, steering])
            is_cancelled = False
        finally:
            await to_the_end(_end_all([*beside, steering]))
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
            await self._has_ready() or await pauses(self.station.store) or await self._has_ready()
        )

    async def _has_ready(self) -> bool:
        if self.station.under_way:
            return True
        cursor = None
        while True:
            page = await self.station.store.list(SessionFilter(status="ready"), cursor=cursor)
            if any(row.agent in self.station.serves for row in page.sessions):
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
                name = self.station.name or self.station.store.url
                _log.warning("the store of %s cannot be used, trying again: %s", name, exc)
                await self.station.rest()
        return None

    async def _job(self, indexed: bool) -> SessionJob:
        """What workflows are started with, but for the session and its agent."""
        name = await store_name(self.station.store)
        terms = self._terms
        return SessionJob(
            session="",
            agent="",
            queue=f"{terms.queue}-{name}",
            store=name,
            heartbeat_s=_heartbeat_s(self.station.config.lease_s),
            linger_s=terms.linger_s,
            rounds=terms.rounds,
            look_s=terms.look_s,
            indexed=indexed,
        )

    def _begin_beside(self, client: Client, job: SessionJob) -> list[asyncio.Task[None]]:
        relay = WorkflowSignaller(self.station.store, client, job=job, labels=self._labels)
        return [asyncio.create_task(begin()) for begin in (relay.run, *self._beside)]

    async def _steer(self, client: Client, queue: str) -> None:
        """See to it that tasks come; ends only if that cannot be."""
        if self._terms.version is not None:
            await make_current(client, queue, self._terms.version)
        await asyncio.Event().wait()

    def _workers(self, client: Client, queue: str, activities: Activities) -> list[SdkWorker]:
        """One for each task queue: that of the store, those of labels, and that of timers."""
        # The SDK would hold heartbeats back until little of the time is left, and whoever is late
        # then because the machine is busy is taken for dead.
        beat = timedelta(seconds=_heartbeat_s(self.station.config.lease_s) / BEATS)
        version = deployment(queue, self._terms.version)
        # Without a build id the SDK hashes the code of all modules, which holds up the event loop
        # for seconds at each start. Workflows are code of Ekiden alone.
        build_id = WorkerVersion().build_id if version is None else None
        needed = {name: self._labels[name] for name in self.station.serves}
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
