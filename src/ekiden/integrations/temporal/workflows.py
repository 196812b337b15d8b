"""The workflows: one per session, which advances it, and the timekeeper of a store.

Workflows decide only from signals and results of activities, so that they can be replayed. Tests
replay stored histories: a change that breaks one of them needs `workflow.patched`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeAlias

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy, SearchAttributeUpdate
from temporalio.exceptions import is_cancelled_exception

from ekiden.integrations.temporal.names import (
    AGENT,
    OUTCOME,
    STATUS,
    AdvanceResult,
    Due,
    Errand,
    SessionJob,
    TimeJob,
    Wake,
    care_queue,
    keyword,
    labelled_queue,
)

ADVANCE = "ekiden.advance"
"""The activity that advances a session to an outcome."""
LEAVE = "ekiden.leave"
"""The activity that leaves a session `idle` whose run has not begun."""

_LONGEST = timedelta(days=30)
"""A run that takes longer is given to another worker; who is dead is noticed by its heartbeat."""
_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=2),
)
"""Temporal counts killed workers as tries, too: pauses that grow would outlast what went wrong."""
_SHORT = timedelta(seconds=30)
AFTER_LEASE_S = 0.05
_LOWEST = 5

_News: TypeAlias = Literal["wanted", "to look at", "none"]


def priority_of(job: SessionJob) -> Priority:
    """The session's as Temporal counts: 1 comes first."""
    return Priority(priority_key=_LOWEST - min(max(job.priority, 1), _LOWEST - 1))


@workflow.defn(name="ekiden.session", sandboxed=False)
class SessionWorkflow:
    """The workflow of one session; its id follows from the session's, so there is one at a time.

    Signals may come twice, late and out of order: the work is in the store, and an `advance`
    without work does nothing.
    """

    @workflow.init
    def __init__(self, job: SessionJob) -> None:
        self._job = job
        self._seen: list[int] = []
        """The latest mark of all signals and standings."""
        self._signalled: list[int] = []
        """The latest mark of the signals that came since the session began to be advanced last."""
        self._is_asked = False
        """Whether one without a mark came since then."""
        self._shown = (job.agent, "ready", "")

    @workflow.signal(name="wake")
    def wake(self, wake: Wake) -> None:
        """The session is `ready`."""
        if wake.mark is None:
            self._is_asked = True
            return
        # Signals may arrive out of order; an older one must not bring back an older agent.
        self._signalled = max(self._signalled, wake.mark)
        if wake.mark >= self._seen:
            self._seen = wake.mark
            self._job = replace(
                self._job, agent=wake.agent, labels=wake.labels, priority=wake.priority
            )

    @workflow.run
    async def run(self, job: SessionJob) -> str:
        """Ends with the session's status, when it had nothing to do for a while."""
        for _ in range(job.rounds):
            try:
                result = await self._advance()
            except (Exception, asyncio.CancelledError) as exc:
                if is_cancelled_exception(exc):
                    await self._leave()
                raise
            self._keep(result)
            if result.status == "gone":
                return result.status
            self._show(result.status, result.outcome)
            match await self._news(result):
                case "none":
                    return result.status
                case "wanted":
                    self._show("ready", "")
            if workflow.info().is_continue_as_new_suggested():
                break
        workflow.continue_as_new(self._job)

    async def _advance(self) -> AdvanceResult:
        """A look at the session now covers all earlier signals."""
        # Before the activity starts: a signal that comes while it runs may be about something that
        # it has read past.
        self._signalled, self._is_asked = [], False
        result: AdvanceResult = await workflow.execute_activity(
            ADVANCE,
            Errand(session=self._job.session),
            task_queue=labelled_queue(self._job.queue, self._job.labels),
            result_type=AdvanceResult,
            start_to_close_timeout=_LONGEST,
            heartbeat_timeout=timedelta(seconds=self._job.heartbeat_s),
            retry_policy=_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=keyword(self._job.agent),
            priority=priority_of(self._job),
        )
        return result

    async def _leave(self) -> None:
        """Have the session left that was to be advanced when somebody cancelled this: it may still
        have stood in line, and what is ready is signalled again."""
        await workflow.execute_activity(
            LEAVE,
            Errand(session=self._job.session, mark=self._seen),
            task_queue=care_queue(self._job.queue),
            start_to_close_timeout=_SHORT,
            retry_policy=_RETRY,
        )

    def _keep(self, result: AdvanceResult) -> None:
        """What an activity read last is truer than a signal that was sent before."""
        if result.mark >= self._seen and result.agent:
            self._seen = result.mark
            self._job = replace(
                self._job,
                agent=result.agent,
                labels=result.labels,
                priority=result.priority,
            )

    async def _news(self, result: AdvanceResult) -> _News:
        """Returns when there is more to do, or when there was nothing for long."""
        if result.status == "ready" and result.busy_s is None:
            return "wanted"
        after_wait: _News = "to look at"
        if result.busy_s is not None:
            longest_s = result.busy_s + AFTER_LEASE_S
        elif result.status == "idle":
            longest_s, after_wait = self._job.linger_s, "none"
        else:
            longest_s = self._job.look_s
        try:
            await workflow.wait_condition(
                lambda: self._is_asked or self._signalled >= result.mark, timeout=longest_s
            )
        except TimeoutError:
            return after_wait
        return "wanted"

    def _show(self, status: str, outcome: str) -> None:
        """Let the session be found by how it stands; what has not changed is not told again."""
        shown = (self._job.agent, status, outcome)
        if not self._job.indexed or shown == self._shown:
            return
        updates: list[SearchAttributeUpdate[str]] = [
            key.value_set(keyword(now)) if now else key.value_unset()
            for key, now, before in zip((AGENT, STATUS, OUTCOME), shown, self._shown, strict=True)
            if now != before
        ]
        self._shown = shown
        workflow.upsert_search_attributes(updates)


RUN_TIMERS = "ekiden.run_timers"
"""The activity that handles due timers and returns when the next one is due."""

_LONGEST_CHECK = timedelta(minutes=5)
_CHECK_HEARTBEAT = timedelta(seconds=10)
_CHECK_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=2),
)


@workflow.defn(name="ekiden.timekeeper", sandboxed=False)
class TimekeeperWorkflow:
    """Times are those of the store, so the workflow gets durations and never a time of day: if the
    clocks differ, the activity finds nothing due and returns the remaining time."""

    @workflow.init
    def __init__(self, job: TimeJob) -> None:
        self._due: datetime | None = None
        self._set(job.due_s)

    @workflow.signal(name="due")
    def due(self, due: Due) -> None:
        """Something is due then; what is due before that is not forgotten."""
        self._set(due.in_s)

    @workflow.run
    async def run(self, job: TimeJob) -> None:
        """Ends when nothing is due any more."""
        for _ in range(job.rounds):
            if await self._is_time():
                self._due = None
                found = await workflow.execute_activity(
                    RUN_TIMERS,
                    task_queue=job.queue,
                    result_type=Due,
                    start_to_close_timeout=_LONGEST_CHECK,
                    heartbeat_timeout=_CHECK_HEARTBEAT,
                    retry_policy=_CHECK_RETRY,
                )
                self._set(found.in_s)
            if self._due is None:
                return
            if workflow.info().is_continue_as_new_suggested():
                break
        left = None if self._due is None else self._due - workflow.now()
        workflow.continue_as_new(
            replace(job, due_s=None if left is None else max(left.total_seconds(), 0.0))
        )

    async def _is_time(self) -> bool:
        """Returns when the time has come, which a signal may bring forward; `False` if there is
        none, or if it has not come and signals made the history too long."""
        while self._due is not None:
            due = self._due
            left = due - workflow.now()
            if left <= timedelta():
                return True
            if workflow.info().is_continue_as_new_suggested():
                return False
            try:
                await workflow.wait_condition(partial(self._is_moved, due), timeout=left)
            except TimeoutError:
                return True
        return False

    def _is_moved(self, due: datetime) -> bool:
        return self._due != due or workflow.info().is_continue_as_new_suggested()

    def _set(self, in_s: float | None) -> None:
        if in_s is None:
            return
        due = workflow.now() + timedelta(seconds=max(in_s, 0.0))
        self._due = due if self._due is None else min(self._due, due)
