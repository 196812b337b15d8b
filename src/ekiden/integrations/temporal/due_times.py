"""Tells the timekeeper of a store when something is due."""

from __future__ import annotations

import logging
from datetime import timedelta

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError

from ekiden.integrations.temporal.names import Due, SessionJob, TimeJob, care_queue, timekeeper_id
from ekiden.integrations.temporal.workflows import TimekeeperWorkflow
from ekiden.storage.base import Store
from ekiden.storage.timers import next_due_us

_log = logging.getLogger("ekiden.temporal")

_AFTER_DUE_S = 0.001
_OVERDUE_S = 0.25
"""What was due so long ago should have been seen to."""
_AGAIN_S = 1.0
_LONGEST_AGAIN_S = 10.0
"""How long until the timekeeper is told again of what is overdue, or could not be told, ever more
rarely: an execution takes only so many signals."""


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
        """Begin anew: somebody else may have told the timekeeper, or nobody."""
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
