"""The relay: work in the store becomes signals, and the timekeeper learns when work is due.

Interfaces write to the store and do not know the engine. A session that is `ready` without a lease
is the request to advance it. So there is no other outbox, and nothing is lost without a relay.
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

from ekiden.core.errors import StaleDocument, StoreError
from ekiden.core.values import is_dead, owner_name
from ekiden.integrations.temporal.names import (
    COLLECTION,
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
from ekiden.storage.base import DocumentWrite, SessionFilter, SessionRow, Store
from ekiden.storage.timers import next_due_us

_log = logging.getLogger("ekiden.temporal")

_AFTER_DUE_S = 0.001
_OVERDUE_S = 0.25
"""A timer that was due so long ago is overdue."""
_AGAIN_S = 1.0
_LONGEST_AGAIN_S = 10.0
"""How long until overdue timers, or failed signals, are signalled again, in growing intervals: an
execution accepts a limited number of signals."""


class Reminder:
    """Signals the timekeeper, which is started if there is none, as rarely as it can.

    The timekeeper looks for itself at what is due next, so a timer that comes after one it knows of
    is no news. Times are the store's, whose clock may be set while the timekeeper sleeps.
    """

    def __init__(self, store: Store, client: Client, *, job: SessionJob, task: timedelta) -> None:
        """`task`: how long a worker may have the workflow before it is taken for dead."""
        self._store = store
        self._client = client
        self._job = job
        self._task = task
        self.forget()

    def forget(self) -> None:
        """Start again: another process may have signalled the timekeeper, or none."""
        self._told_us: int | None = None
        self._not_before = 0.0
        self._pause_s = _AGAIN_S

    async def look(self, now: float) -> None:
        """Tell what is to be told; `now` is on a clock that is never set. What Temporal refuses is
        logged and told later."""
        due_us = await next_due_us(self._store)
        if due_us is None:
            return
        now_us = await self._store.now_us()
        is_overdue = due_us + int(_OVERDUE_S * 1e6) <= now_us
        if now < self._not_before or not (is_overdue or self._is_news(due_us, now_us)):
            return
        try:
            await self._tell(max((due_us - now_us) / 1e6 + _AFTER_DUE_S, 0.0))
        except RPCError as exc:
            _log.warning("the timekeeper could not be told, trying again: %s", exc.message)
            self._wait(now)
            return
        self._told_us = due_us
        if is_overdue:
            self._wait(now)
        else:
            self._pause_s = _AGAIN_S

    def _is_news(self, due_us: int, now_us: int) -> bool:
        told_us = self._told_us
        if told_us is None or due_us < told_us:
            return True
        return told_us <= now_us and told_us != due_us

    def _wait(self, now: float) -> None:
        self._not_before = now + self._pause_s
        self._pause_s = min(self._pause_s * 2, _LONGEST_AGAIN_S)

    async def _tell(self, in_s: float) -> None:
        queue = self._job.queue
        await self._client.start_workflow(
            TimekeeperWorkflow.run,
            TimeJob(queue=care_queue(queue), rounds=self._job.rounds, due_s=in_s),
            id=timekeeper_id(queue),
            task_queue=queue,
            task_timeout=self._task,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            start_signal="due",
            start_signal_args=[Due(in_s=in_s)],
            static_summary="deadlines",
        )


_PAGE = 200
_SHORT = 12
_AT_ONCE = 32
"""Calls of Temporal that are under way at the same time."""
_IDLE_S = 0.5
"""How long to wait for a hint before looking anyway: leases that ran out send none."""
_STANDBY_S = 0.1
_REST = 2.0
"""A look is followed by a pause of so many times its length, so that looking at a long queue does
not become the store's main work."""
_MOMENT_S = 0.005
_TASK = timedelta(seconds=1)
"""A worker that has a workflow for longer was killed: what workflows do takes milliseconds."""
_CHECK_S = 5.0
"""How long after its signal, or its last check, the workflow of a session that is still ready is
checked: it may have been terminated, or the cluster may have lost it."""
_FRESH_S = 1.0
"""A new relay signals sessions that became ready so recently: an activity that read the session
before may be about to end."""
_STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
_FIRST_EPOCH = 1
"""That of a session which no worker has had yet."""
_CHECKS = 10
_CHECK_EVERY_S = 1.0
"""At most so many checks in so long. Unlike a signal, a check adds nothing to a history."""


@dataclass(slots=True, kw_only=True)
class _Sent:
    """What was signalled for a session that is still ready."""

    mark: list[int]
    check_at: float


class WorkflowSignaller:
    """Signals the workflows of sessions that are ready, and the timekeeper when it is due earlier.

    It looks after the sessions of the agents in `labels`. Any number of processes may have one for
    the same store; of those with the same agents one at a time does the work.
    """

    def __init__(
        self,
        store: Store,
        client: Client,
        *,
        job: SessionJob,
        labels: Mapping[str, list[str]],
    ) -> None:
        """`job`: what workflows are started with, but for the session and its agent."""
        self._store = store
        self._client = client
        self._job = job
        self._labels = labels
        office = f"relay/{job.queue}/{_digest(labels)}"
        self._office = LeaderLease(store, office, term_s=job.heartbeat_s)
        self._sent: dict[str, _Sent] = {}
        self._takes_over = True
        """Whether what was signalled by others is not known yet."""
        self._no_check_before = 0.0
        self._is_refused = False
        """Whether the cluster refused a signal since the search attributes were looked at."""
        self._no_index_before = 0.0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._reminder = Reminder(store, client, job=job, task=_TASK)

    async def run(self) -> None:
        """Look whenever there may be something, for ever. What fails is tried again."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._office.keep())
                while True:
                    await self._look_and_wait()
        finally:
            await self._leave()

    async def _look_and_wait(self) -> None:
        begun = asyncio.get_running_loop().time()
        try:
            if not self._office.is_held:
                self._takes_over = True
                # Another relay works now. What this one knows is outdated when it gets the office
                # again.
                self._sent.clear()
                self._reminder.forget()
                await asyncio.sleep(_STANDBY_S)
                return
            await self.look()
            took_s = asyncio.get_running_loop().time() - begun
            await asyncio.sleep(min(_REST * took_s, _IDLE_S) + _MOMENT_S)
            await self._store.wait_for_change(_IDLE_S)
        except (StoreError, RPCError) as exc:
            _log.warning("ready sessions could not be signalled, trying again: %s", exc)
            await asyncio.sleep(_IDLE_S)
        except Exception:
            _log.exception("ready sessions could not be signalled, trying again")
            await asyncio.sleep(_IDLE_S)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(_IDLE_S):
                await self._office.leave()
        except (StoreError, TimeoutError):
            return  # The term ends by itself.

    async def look(self) -> None:
        """Signal what is to be signalled now."""
        ready = await self._ready()
        # Sessions that are no longer ready are forgotten; when one is ready again, that is news.
        self._sent = {row.id: self._sent[row.id] for row in ready if row.id in self._sent}
        await self._index_again()
        if self._takes_over and self._office.is_taken_over:
            await self._take_over(ready)
        self._takes_over = False
        await self._each(self._wake, [row for row in ready if self._is_news(row)])
        await self._check(ready)
        await self._reminder.look(asyncio.get_running_loop().time())

    async def _each(
        self, do: Callable[[SessionRow], Coroutine[Any, Any, None]], rows: Iterable[SessionRow]
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for row in rows:
                # Taken before the task is made: thousands of waiting tasks would cost memory for
                # nothing.
                await self._slots.acquire()
                group.create_task(do(row)).add_done_callback(lambda _: self._slots.release())

    async def _index_again(self) -> None:
        """Make the search attributes again after a signal was refused: a cluster that lost its data
        has lost them, too, and refuses workflows that have them."""
        now = asyncio.get_running_loop().time()
        if self._is_refused and self._job.indexed and now >= self._no_index_before:
            self._is_refused, self._no_index_before = False, now + _CHECK_S
            self._job = replace(self._job, indexed=await register(self._client))

    async def _take_over(self, ready: Sequence[SessionRow]) -> None:
        """Find the sessions that the relay before this one signalled.

        To signal all of them again would give each a workflow task, and workers that are behind
        with these would fall behind further.
        """
        now = asyncio.get_running_loop().time()
        fresh_us = await self._store.now_us() - int(_FRESH_S * 1e6)
        older = [row for row in ready if row.updated_at_us < fresh_us]
        self._sent.update((row.id, _Sent(mark=_mark(row), check_at=now)) for row in older)
        for row in await self._forgotten(older):
            del self._sent[row.id]

    async def _check(self, ready: Sequence[SessionRow]) -> None:
        """Signal sessions again that Temporal has forgotten.

        Few are checked at a time. If one of them is forgotten, the cluster may have lost its data:
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
        forgotten = await self._forgotten(due)
        if forgotten:
            # Usually none is forgotten; if one is, the cluster may have lost many.
            forgotten += await self._forgotten(sent[len(due) :])
        await self._each(lambda row: self._signal(row, is_again=True), forgotten)

    async def _forgotten(self, rows: Sequence[SessionRow]) -> list[SessionRow]:
        found: list[SessionRow] = []

        async def look(row: SessionRow) -> None:
            if not await self._is_attended(row):
                found.append(row)

        await self._each(look, rows)
        return found

    async def _is_attended(self, row: SessionRow) -> bool:
        """Whether a workflow is about to advance the session, as far as can be known."""
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
        """End the activity of a worker that was killed on this host, so that the workflow begins
        another one at once; returns whether there was one.

        Temporal notices a dead worker only by its missing heartbeats, and every retry waits for a
        timer of at least a second. The worker that caches the workflow may be dead as well, so the
        next task goes to any worker.
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
        """The sessions without a lease."""
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

    def _is_news(self, row: SessionRow) -> bool:
        sent = self._sent.get(row.id)
        return sent is None or sent.mark != _mark(row)

    async def _wake(self, row: SessionRow) -> None:
        """Have the session advanced, which became ready or lost its owner."""
        # Nobody can have died with a session that was never claimed.
        if row.epoch > _FIRST_EPOCH:
            with suppress(RPCError):  # Then it is signalled, which is always right.
                found = await self._described(row)
                if found is not None and await self._replace_dead(row, found):
                    self._note(row)
                    return
        await self._signal(row)

    async def _signal(self, row: SessionRow, *, is_again: bool = False) -> None:
        """Wake the workflow of the session, which is started if there is none; `is_again`: have it
        look at the session in any case."""
        labels = self._labels[row.agent]
        job = replace(
            self._job, session=row.id, agent=row.agent, labels=labels, priority=row.priority
        )
        wake = Wake(
            agent=row.agent,
            labels=labels,
            mark=None if is_again else _mark(row),
            priority=row.priority,
        )
        try:
            await self._client.start_workflow(
                SessionWorkflow.run,
                job,
                id=workflow_id(job.store, row.id),
                task_queue=job.queue,
                task_timeout=_TASK,
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
        self._note(row)

    def _note(self, row: SessionRow) -> None:
        """The session needs no further signal as long as it stays as it is."""
        check_at = asyncio.get_running_loop().time() + _CHECK_S
        self._sent[row.id] = _Sent(mark=_mark(row), check_at=check_at)


def _mark(row: SessionRow) -> list[int]:
    """By which a later state of a session is known from an earlier one."""
    return [row.created_at_us, row.epoch]


def _digest(labels: Mapping[str, list[str]]) -> str:
    """The same for those who know the same agents."""
    told = json.dumps({name: sorted(needed) for name, needed in labels.items()}, sort_keys=True)
    return hashlib.sha256(told.encode("utf-8")).hexdigest()[:_SHORT]


TERM_S = 3.0
"""After at most so long another process takes over the lease of a silent process."""
_LOOK_EVERY_S = 0.25


class LeaderLease:
    """An office that one process holds at a time, for a term that it renews.

    Two may believe for a moment that they hold it: only what does no harm when it is done twice
    may depend on it.
    """

    def __init__(self, store: Store, name: str, *, term_s: float = TERM_S) -> None:
        """`term_s`: after how long a process that is not heard of is taken for dead."""
        self._store = store
        self._term_s = min(term_s, TERM_S)
        self._key = f"office/{name}"
        self._until_us = 0
        self._held_until = 0.0
        """In the time of the loop."""
        self._who = f"{id(self):x}-{owner_name()}"
        self.is_taken_over = False
        """Whether an earlier holder did not release it."""

    @property
    def is_held(self) -> bool:
        """Whether it is ours, as far as is known without asking the store."""
        return asyncio.get_running_loop().time() < self._held_until

    async def keep(self) -> None:
        """Take the lease as soon as it is free and renew it, for ever.

        This is a task of its own: renewed between two pieces of work, the lease would be lost
        during a long one, and the next holder would repeat that work.
        """
        while True:
            try:
                await self.hold()
            except StoreError as exc:
                _log.warning("%s could not be renewed, trying again: %s", self._key, exc)
            except Exception:
                _log.exception("%s could not be renewed, trying again", self._key)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def hold(self) -> bool:
        """Take the office or keep it; whether it is ours."""
        asked_at = asyncio.get_running_loop().time()
        now_us = await self._store.now_us()
        term_us, longest_us = int(self._term_s * 1e6), int(TERM_S * 1e6)
        if now_us < self._until_us - term_us * 2 // 3:
            return True
        found = await self._store.get_document(COLLECTION, self._key)
        if (
            found is not None
            and found.body["who"] != self._who
            and now_us < found.body["until_us"] <= now_us + longest_us
            and not is_dead(found.body["who"].partition("-")[2])
        ):
            self._lose()
            return False
        until_us = now_us + term_us
        write = DocumentWrite(
            collection=COLLECTION,
            key=self._key,
            body={"who": self._who, "until_us": until_us},
            expected_version=0 if found is None else found.version,
        )
        try:
            await self._store.write_documents([write])
        except StaleDocument:
            self._lose()
            return False
        if not self.is_held:
            self.is_taken_over = found is not None
        self._until_us = until_us
        self._held_until = asked_at + self._term_s
        return True

    async def leave(self) -> None:
        """Release it at once."""
        self._lose()
        found = await self._store.get_document(COLLECTION, self._key)
        if found is None or found.body["who"] != self._who:
            return
        removal = DocumentWrite(
            collection=COLLECTION, key=self._key, body=None, expected_version=found.version
        )
        try:
            await self._store.write_documents([removal])
        except StaleDocument:
            return

    def _lose(self) -> None:
        self._until_us, self._held_until = 0, 0.0
