"""The timekeeper of a store: a workflow that sleeps until something is due."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from temporalio import workflow
from temporalio.common import RetryPolicy

from ekiden.integrations.temporal.names import Due, TimeJob

RUN_TIMERS = "ekiden.run_timers"
"""The activity that sees to what is due and says when there is more."""

_LONGEST_CHECK = timedelta(minutes=5)
_CHECK_HEARTBEAT = timedelta(seconds=10)
_CHECK_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=2),
)


@workflow.defn(name="ekiden.timekeeper", sandboxed=False)
class TimekeeperWorkflow:
    """Times are those of the store, so only how long to wait is told, never a time of day: if the
    clocks do not run alike, the activity finds nothing and says how long it still is."""

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
