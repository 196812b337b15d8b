"""The workflows. Each session has a workflow that advances it, and each store has a timekeeper
workflow.

Workflows depend only on signals and results of activities, so that they can be replayed. Tests
replay stored histories. A change that breaks such a replay needs `workflow.patched`.
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
    ActivityInput,
    AdvanceResult,
    Due,
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
"""The activity that sets a session to `idle` if its run has not begun."""
RUN_TIMERS = "ekiden.run_timers"
"""The activity that handles due timers and returns the time until the next timer."""

_RUN_TIMEOUT = timedelta(days=30)
"""The timeout of a run. Dead workers are noticed earlier, by their missing heartbeats."""
_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=2),
)
"""The interval stays short: Temporal also counts killed workers as attempts, and a long interval
would continue after the cause is gone."""
_LEAVE_TIMEOUT = timedelta(seconds=30)
AFTER_LEASE_S = 0.05
"""The session is claimed this many seconds after the end of another owner's lease."""
_LOWEST = 5
_TIMERS_TIMEOUT = timedelta(minutes=5)
_TIMERS_HEARTBEAT = timedelta(seconds=10)

_NextStep: TypeAlias = Literal["advance", "check", "end"]


def priority_of(job: SessionJob) -> Priority:
    """The priority of the session in Temporal's order, where 1 is the highest."""
    return Priority(priority_key=_LOWEST - min(max(job.priority, 1), _LOWEST - 1))


@workflow.defn(name="ekiden.session", sandboxed=False)
class SessionWorkflow:
    """The workflow of one session. The id of the workflow is derived from the session's id, so a
    session has only one open workflow.

    Signals may arrive twice, late and out of order, because the work is in the store, and an
    `advance` without work does nothing.
    """

    @workflow.init
    def __init__(self, job: SessionJob) -> None:
        self._job = job
        self._seen: list[int] = []
        """The latest mark of all signals and results."""
        self._signalled: list[int] = []
        """The latest mark of the signals since the start of the last `advance`."""
        self._must_check = False
        """Whether a signal without a mark arrived since then."""
        self._shown = (job.agent, "ready", "")
        """The current search attributes."""

    @workflow.signal(name="wake")
    def wake(self, wake: Wake) -> None:
        """Handle the signal that the session is `ready`."""
        if wake.mark is None:
            self._must_check = True
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
        """Advance the session until it has had no work for a while, and return its status."""
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
            match await self._next_step(result):
                case "end":
                    return result.status
                case "advance":
                    self._show("ready", "")
            if workflow.info().is_continue_as_new_suggested():
                break
        workflow.continue_as_new(self._job)

    async def _advance(self) -> AdvanceResult:
        # The activity reads the session, so it covers all earlier signals. They are reset before it
        # starts: a signal during the activity may be about a change after its last read.
        self._signalled, self._must_check = [], False
        result: AdvanceResult = await workflow.execute_activity(
            ADVANCE,
            ActivityInput(session=self._job.session),
            task_queue=labelled_queue(self._job.queue, self._job.labels),
            result_type=AdvanceResult,
            start_to_close_timeout=_RUN_TIMEOUT,
            heartbeat_timeout=timedelta(seconds=self._job.heartbeat_s),
            retry_policy=_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=keyword(self._job.agent),
            priority=priority_of(self._job),
        )
        return result

    async def _leave(self) -> None:
        """Set the session to `idle` after the workflow was cancelled. If its activity had not
        started, the session is still `ready`, and would be signalled again."""
        await workflow.execute_activity(
            LEAVE,
            ActivityInput(session=self._job.session, mark=self._seen),
            task_queue=care_queue(self._job.queue),
            start_to_close_timeout=_LEAVE_TIMEOUT,
            retry_policy=_RETRY,
        )

    def _keep(self, result: AdvanceResult) -> None:
        # A signal that was sent before the activity read the session may arrive later.
        if result.mark >= self._seen and result.agent:
            self._seen = result.mark
            self._job = replace(
                self._job, agent=result.agent, labels=result.labels, priority=result.priority
            )

    async def _next_step(self, result: AdvanceResult) -> _NextStep:
        """Wait for a signal; without one, the time limit decides."""
        if result.status == "ready" and result.busy_s is None:
            return "advance"
        after_timeout: _NextStep = "check"
        if result.busy_s is not None:
            timeout_s = result.busy_s + AFTER_LEASE_S
        elif result.status == "idle":
            timeout_s, after_timeout = self._job.linger_s, "end"
        else:
            timeout_s = self._job.look_s
        try:
            await workflow.wait_condition(
                lambda: self._must_check or self._signalled >= result.mark, timeout=timeout_s
            )
        except TimeoutError:
            return after_timeout
        return "advance"

    def _show(self, status: str, outcome: str) -> None:
        """Update the search attributes that have changed."""
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


@workflow.defn(name="ekiden.timekeeper", sandboxed=False)
class TimekeeperWorkflow:
    """Handles the timers of a store when they are due.

    Timers use the clock of the store. So the workflow gets durations and never a time of day. If
    the clocks differ, the activity finds no due timer and returns the remaining time.
    """

    @workflow.init
    def __init__(self, job: TimeJob) -> None:
        self._due: datetime | None = None
        self._set(job.due_s)

    @workflow.signal(name="due")
    def due(self, due: Due) -> None:
        """Handle the signal with the time until a timer. An earlier known timer is kept."""
        self._set(due.in_s)

    @workflow.run
    async def run(self, job: TimeJob) -> None:
        """Handle the timers, and end when there are no more timers."""
        for _ in range(job.rounds):
            if await self._wait_until_due():
                self._due = None
                found = await workflow.execute_activity(
                    RUN_TIMERS,
                    task_queue=job.queue,
                    result_type=Due,
                    start_to_close_timeout=_TIMERS_TIMEOUT,
                    heartbeat_timeout=_TIMERS_HEARTBEAT,
                    retry_policy=_RETRY,
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

    async def _wait_until_due(self) -> bool:
        """Wait for the next timer, which a signal may change. `False`: there is none, or signals
        made the history too long before it was due."""
        while self._due is not None:
            due = self._due
            left = due - workflow.now()
            if left <= timedelta():
                return True
            if workflow.info().is_continue_as_new_suggested():
                return False
            try:
                await workflow.wait_condition(partial(self._has_changed, due), timeout=left)
            except TimeoutError:
                return True
        return False

    def _has_changed(self, due: datetime) -> bool:
        return self._due != due or workflow.info().is_continue_as_new_suggested()

    def _set(self, in_s: float | None) -> None:
        if in_s is None:
            return
        due = workflow.now() + timedelta(seconds=max(in_s, 0.0))
        self._due = due if self._due is None else min(self._due, due)
