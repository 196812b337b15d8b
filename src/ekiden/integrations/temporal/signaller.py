"""Signals the workflows of ready sessions, and the timekeeper when a timer is due.

Interfaces write to the store and do not know the engine. The row of a `ready` session without a
lease is itself the request to advance the session. So no other outbox is needed, and no request is
lost while no process sends signals.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from ekiden.core.errors import StoreError
from ekiden.core.values import is_dead
from ekiden.integrations.temporal.connection import LeaderLease
from ekiden.integrations.temporal.names import (
    AdvanceResult,
    Due,
    SessionJob,
    TimeJob,
    Wake,
    care_queue,
    first_attributes,
    keyword,
    register,
    timekeeper_id,
    workflow_id,
)
from ekiden.integrations.temporal.workflows import SessionWorkflow, TimekeeperWorkflow, priority_of
from ekiden.storage.base import SessionFilter, SessionRow, Store
from ekiden.storage.timers import next_due_us

_log = logging.getLogger("ekiden.temporal")

_AFTER_DUE_S = 0.001
_OVERDUE_S = 0.25
"""A timer is overdue after this many seconds."""
_AGAIN_S = 1.0
_LONGEST_AGAIN_S = 10.0
"""How long until overdue timers, or failed signals, are signalled again. The intervals grow,
because an execution accepts a limited number of signals."""

_PAGE = 200
_DIGEST_LENGTH = 12
_AT_ONCE = 32
"""The maximum number of concurrent calls to Temporal."""
_IDLE_S = 0.5
"""The polling interval of the store. Most changes end the wait earlier, but expired leases do
not."""
_STANDBY_S = 0.1
_REST = 2.0
"""Reading the ready sessions is followed by a pause of this many times its duration, so that a long
queue does not overload the store."""
_MIN_PAUSE_S = 0.005
_TASK_TIMEOUT = timedelta(seconds=1)
"""After this time a worker with a workflow task is considered dead: these tasks take
milliseconds."""
_CHECK_S = 5.0
"""How long after its signal or its last check the workflow of a ready session is checked: it may
have been terminated, or the cluster may have lost it."""
_FRESH_S = 1.0
"""After a takeover, sessions that became ready this recently are signalled again: an activity that
read the session before may be about to end."""
_STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
_FIRST_EPOCH = 1
"""The epoch of a session that was never claimed."""
_CHECKS = 10
_CHECK_EVERY_S = 1.0
"""The maximum number of checks in this interval. Unlike a signal, a check adds nothing to a
history."""


class _TimekeeperSignals:
    """Signals the timekeeper, and starts it if it is not running, but as rarely as possible.

    The timekeeper finds the next timer by itself, so a timer that is due after a known one needs no
    signal. Timers have the time of the store, whose clock may be set meanwhile.
    """

    def __init__(self, store: Store, client: Client, *, job: SessionJob) -> None:
        self._store = store
        self._client = client
        self._job = job
        self.reset()

    def reset(self) -> None:
        """Forget what was signalled: another process signalled the timekeeper since."""
        self._signalled_us: int | None = None
        self._not_before = 0.0
        self._pause_s = _AGAIN_S

    async def update(self) -> None:
        """Signal the timekeeper if needed. A refused signal is logged and repeated later."""
        due_us = await next_due_us(self._store)
        if due_us is None:
            return
        now, now_us = asyncio.get_running_loop().time(), await self._store.now_us()
        is_overdue = due_us + int(_OVERDUE_S * 1e6) <= now_us
        if now < self._not_before or not (is_overdue or self._is_needed(due_us, now_us)):
            return
        try:
            await self._signal(max((due_us - now_us) / 1e6 + _AFTER_DUE_S, 0.0))
        except RPCError as exc:
            _log.warning("the timekeeper could not be notified, trying again: %s", exc.message)
            self._pause(now)
            return
        self._signalled_us = due_us
        if is_overdue:
            self._pause(now)
        else:
            self._pause_s = _AGAIN_S

    def _is_needed(self, due_us: int, now_us: int) -> bool:
        signalled_us = self._signalled_us
        if signalled_us is None or due_us < signalled_us:
            return True
        return signalled_us <= now_us and signalled_us != due_us

    def _pause(self, now: float) -> None:
        self._not_before = now + self._pause_s
        self._pause_s = min(self._pause_s * 2, _LONGEST_AGAIN_S)

    async def _signal(self, in_s: float) -> None:
        queue = self._job.queue
        await self._client.start_workflow(
            TimekeeperWorkflow.run,
            TimeJob(queue=care_queue(queue), rounds=self._job.rounds, due_s=in_s),
            id=timekeeper_id(queue),
            task_queue=queue,
            task_timeout=_TASK_TIMEOUT,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            start_signal="due",
            start_signal_args=[Due(in_s=in_s)],
            static_summary="deadlines",
        )


@dataclass(slots=True, kw_only=True)
class _Sent:
    """The signal for a session that is still ready."""

    mark: list[int]
    check_at: float


class WorkflowSignaller:
    """Signals the workflows of ready sessions, and the timekeeper.

    It signals the sessions of the agents in `labels`. Several processes may run a signaller for one
    store. Among the processes with the same agents, only the holder of a lease sends signals.
    """

    def __init__(
        self,
        store: Store,
        client: Client,
        *,
        job: SessionJob,
        labels: Mapping[str, list[str]],
    ) -> None:
        """`job` is the input of all workflows, without session and agent."""
        self._store = store
        self._client = client
        self._job = job
        self._labels = labels
        # Only processes that know the same agents compete for the lease.
        text = json.dumps({name: sorted(labels[name]) for name in labels}, sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:_DIGEST_LENGTH]
        self._lease = LeaderLease(store, f"relay/{job.queue}/{digest}", term_s=job.heartbeat_s)
        self._sent: dict[str, _Sent] = {}
        """The signals for sessions that are still ready, by session."""
        self._takes_over = True
        """Whether the signals of the last holder of the lease are not known yet."""
        self._no_check_before = 0.0
        self._is_refused = False
        """Whether the cluster refused a signal since the search attributes were registered."""
        self._no_register_before = 0.0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._timekeeper = _TimekeeperSignals(store, client, job=job)

    async def run(self) -> None:
        """Send signals until this call is cancelled. A failure is logged, and the signals are sent
        again."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._lease.keep())
                while True:
                    await self._update_and_wait()
        finally:
            await self._release()

    async def _update_and_wait(self) -> None:
        started = asyncio.get_running_loop().time()
        try:
            if not self._lease.is_held:
                # Another process signals now, so this state will be outdated with the next lease.
                self._takes_over = True
                self._sent.clear()
                self._timekeeper.reset()
                await asyncio.sleep(_STANDBY_S)
                return
            await self.update()
            took_s = asyncio.get_running_loop().time() - started
            await asyncio.sleep(min(_REST * took_s, _IDLE_S) + _MIN_PAUSE_S)
            await self._store.wait_for_change(_IDLE_S)
        except (StoreError, RPCError) as exc:
            _log.warning("ready sessions could not be signalled, trying again: %s", exc)
            await asyncio.sleep(_IDLE_S)
        except Exception:
            _log.exception("ready sessions could not be signalled, trying again")
            await asyncio.sleep(_IDLE_S)

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(_IDLE_S):
                await self._lease.leave()
        except (StoreError, TimeoutError):
            return  # The lease expires by itself.

    async def update(self) -> None:
        """Send all signals that are needed now."""
        ready = await self._ready()
        # A session that is no longer ready is forgotten; when it is ready again, it is signalled.
        self._sent = {row.id: self._sent[row.id] for row in ready if row.id in self._sent}
        await self._register_again()
        if self._takes_over and self._lease.is_taken_over:
            await self._take_over(ready)
        self._takes_over = False
        await self._each(self._wake, [row for row in ready if self._is_new(row)])
        await self._check(ready)
        await self._timekeeper.update()

    async def _each(
        self, do: Callable[[SessionRow], Coroutine[Any, Any, None]], rows: Iterable[SessionRow]
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for row in rows:
                # Acquired before the task exists: thousands of waiting tasks would use much memory.
                await self._slots.acquire()
                group.create_task(do(row)).add_done_callback(lambda _: self._slots.release())

    async def _register_again(self) -> None:
        """Register the search attributes again after a refused signal. A cluster that lost its data
        has lost them, too, and refuses workflows that use them."""
        now = asyncio.get_running_loop().time()
        if self._is_refused and self._job.indexed and now >= self._no_register_before:
            self._is_refused, self._no_register_before = False, now + _CHECK_S
            self._job = replace(self._job, indexed=await register(self._client))

    async def _take_over(self, ready: Sequence[SessionRow]) -> None:
        """Find the sessions that the last holder of the lease signalled.

        Signalling all of them again would create a workflow task for each, which would delay
        workers that are busy already.
        """
        now = asyncio.get_running_loop().time()
        fresh_us = await self._store.now_us() - int(_FRESH_S * 1e6)
        older = [row for row in ready if row.updated_at_us < fresh_us]
        self._sent.update((row.id, _Sent(mark=_mark(row), check_at=now)) for row in older)
        for row in await self._lost(older):
            del self._sent[row.id]

    async def _check(self, ready: Sequence[SessionRow]) -> None:
        """Signal sessions again whose workflow is lost.

        Only a few are checked at a time. If one is lost, the cluster may have lost its data, and
        all others are checked, too.
        """
        now = asyncio.get_running_loop().time()
        sent = sorted(
            (row for row in ready if row.id in self._sent),
            key=lambda row: self._sent[row.id].check_at,
        )
        due = [row for row in sent[:_CHECKS] if self._sent[row.id].check_at <= now]
        if not due or now < self._no_check_before:
            return
        self._no_check_before = now + _CHECK_EVERY_S
        lost = await self._lost(due)
        if lost:
            lost += await self._lost(sent[len(due) :])
        await self._each(lambda row: self._signal(row, check=True), lost)

    async def _lost(self, rows: Sequence[SessionRow]) -> list[SessionRow]:
        lost: list[SessionRow] = []

        async def check(row: SessionRow) -> None:
            if not await self._has_workflow(row):
                lost.append(row)

        await self._each(check, rows)
        return lost

    async def _has_workflow(self, row: SessionRow) -> bool:
        """Whether a workflow is about to advance the session; `True` if that is unknown."""
        try:
            found = await self._described(row)
            if found is None or found.status != WorkflowExecutionStatus.RUNNING:
                return False
            self._sent[row.id].check_at = asyncio.get_running_loop().time() + _CHECK_S
            await self._replace_dead(row, found)
        except RPCError as exc:
            _log.warning("session %s could not be checked, trying again: %s", row.id, exc.message)
            return True
        pending = found.raw_description
        return bool(pending.pending_activities) or pending.HasField("pending_workflow_task")

    async def _described(self, row: SessionRow) -> WorkflowExecutionDescription | None:
        handle = self._client.get_workflow_handle(workflow_id(self._job.store, row.id))
        try:
            return await handle.describe()
        except RPCError as exc:
            if exc.status == RPCStatusCode.NOT_FOUND:
                return None
            raise

    async def _replace_dead(self, row: SessionRow, found: WorkflowExecutionDescription) -> bool:
        """Complete the activity of a worker that was killed on this host, so that the workflow
        starts the next activity at once. Returns whether there was one.

        Temporal notices a dead worker only by its missing heartbeats, and a retry waits at least a
        second. The worker that has the workflow in its cache may be dead as well, so the next task
        is for any worker.
        """
        for pending in found.raw_description.pending_activities:
            if pending.state != _STARTED or not is_dead(pending.last_worker_identity):
                continue
            result = AdvanceResult(
                status="ready",
                agent=row.agent,
                labels=self._labels[row.agent],
                mark=_mark(row),
                priority=row.priority,
            )
            uncached = ResetStickyTaskQueueRequest(
                namespace=self._client.namespace,
                execution=WorkflowExecution(workflow_id=found.id, run_id=found.run_id),
            )
            await self._client.workflow_service.reset_sticky_task_queue(uncached)
            await self._client.get_async_activity_handle(
                workflow_id=found.id, run_id=found.run_id, activity_id=pending.activity_id
            ).complete(result)
            return True
        return False

    async def _ready(self) -> list[SessionRow]:
        """The ready sessions without an owner, of the served agents."""
        found: list[SessionRow] = []
        cursor = None
        while True:
            page = await self._store.list(SessionFilter(status="ready"), limit=_PAGE, cursor=cursor)
            found += [
                row for row in page.sessions if row.owner is None and row.agent in self._labels
            ]
            cursor = page.next_cursor
            if cursor is None:
                return found

    def _is_new(self, row: SessionRow) -> bool:
        sent = self._sent.get(row.id)
        return sent is None or sent.mark != _mark(row)

    async def _wake(self, row: SessionRow) -> None:
        """Have a session advanced that became ready or lost its owner."""
        # Only a session that was claimed can have a dead worker.
        if row.epoch > _FIRST_EPOCH:
            with suppress(RPCError):  # The signal below is always correct, only slower.
                found = await self._described(row)
                if found is not None and await self._replace_dead(row, found):
                    self._set_sent(row)
                    return
        await self._signal(row)

    async def _signal(self, row: SessionRow, *, check: bool = False) -> None:
        """Signal the workflow of the session, and start it if it is not running. With `check` it
        reads the session even if it knows this state."""
        labels = self._labels[row.agent]
        job = replace(
            self._job, session=row.id, agent=row.agent, labels=labels, priority=row.priority
        )
        wake = Wake(
            agent=row.agent,
            labels=labels,
            mark=None if check else _mark(row),
            priority=row.priority,
        )
        try:
            await self._client.start_workflow(
                SessionWorkflow.run,
                job,
                id=workflow_id(job.store, row.id),
                task_queue=job.queue,
                task_timeout=_TASK_TIMEOUT,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                start_signal="wake",
                start_signal_args=[wake],
                search_attributes=first_attributes(job),
                memo={"session": row.id},
                static_summary=keyword(f"session {row.id}"),
                priority=priority_of(job),
            )
        except RPCError as exc:
            _log.warning("session %s could not be signalled, trying again: %s", row.id, exc.message)
            self._is_refused |= exc.status == RPCStatusCode.INVALID_ARGUMENT
            return
        self._set_sent(row)

    def _set_sent(self, row: SessionRow) -> None:
        check_at = asyncio.get_running_loop().time() + _CHECK_S
        self._sent[row.id] = _Sent(mark=_mark(row), check_at=check_at)


def _mark(row: SessionRow) -> list[int]:
    """The mark of this state of the session; see `Wake`."""
    return [row.created_at_us, row.epoch]
