"""The activities of workflows: advancing sessions, and handling timers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ekiden.core.errors import LeaseLost, SessionBusy, SessionNotFound, StoreError, StoreUnavailable
from ekiden.core.values import owner_name
from ekiden.engine.store_worker import StoreWorker
from ekiden.integrations.temporal.names import ActivityInput, AdvanceResult, Due, labelled_queue
from ekiden.integrations.temporal.workflows import ADVANCE, AFTER_LEASE_S, LEAVE, RUN_TIMERS
from ekiden.runtime.questions.due import run_timers
from ekiden.runtime.state.calls import to_the_end
from ekiden.storage.base import Claim, Commit, SessionPatch, SessionRow, SessionStatus, Store
from ekiden.storage.timers import next_due_us

_log = logging.getLogger("ekiden.temporal")

BEATS = 3
"""The number of heartbeats within the heartbeat timeout."""
_OTHER_WORKER_S = 1.0
"""When another worker is tried for an agent that this worker does not know."""
_STORE_WAIT_S = 10.0
"""How long an activity waits for an unreachable database before another worker may try."""
_LEAVE_EVERY_S = 0.02
_AFTER_DUE_S = 0.001
_OVERDUE_S = 0.1


class Activities:
    """The activities of one worker.

    After an exception, Temporal retries the activity, on this worker or on another one. Temporal
    also shows the exception. So the text of an exception names the kind of failure, and contains no
    part of a conversation. A failed run is an outcome, not an exception.
    """

    def __init__(
        self, store_worker: StoreWorker, labels: Mapping[str, list[str]], *, queue: str
    ) -> None:
        """`labels` contains the worker labels that each agent of the team needs."""
        self._store_worker = store_worker
        self._labels = labels
        self._queue = queue
        self._is_leaving = False
        self._calls = 0

    @activity.defn(name=ADVANCE)
    async def advance(self, given: ActivityInput) -> AdvanceResult:
        """Run the session to an outcome, if the session is `ready` and has no other owner."""
        store = self._store_worker.store
        self._calls += 1
        try:
            async with _heartbeats():
                return await self._advance(store, given.session)
        except SessionNotFound:
            return AdvanceResult(status="gone")
        except StoreError as exc:
            _log.warning("session %s is left for later: %s", given.session, exc)
            raise _without_store(exc) from None
        except ApplicationError:
            raise
        except Exception as exc:
            _log.exception("session %s cannot be advanced, trying again", given.session)
            raise _unexpected(exc) from None
        finally:
            self._calls -= 1

    @activity.defn(name=LEAVE)
    async def leave(self, given: ActivityInput) -> None:
        """Set the session to `idle` if its run has not begun, so that the session can be
        resumed."""
        store = self._store_worker.store
        try:
            row = await store.get(given.session)
            if not _is_untouched(row, given.mark):
                return
            claim, row = await _claimed(store, row.id, self._store_worker.config.lease_s)
            if row.status == "ready":
                patch = SessionPatch(status="idle")
                await store.commit(claim, Commit(patch=patch, release=True))
            else:
                await store.release(claim)
        except (SessionNotFound, SessionBusy, LeaseLost):
            return
        except StoreError as exc:
            _log.warning("session %s could not be left, trying again: %s", given.session, exc)
            raise _without_store(exc) from None
        except Exception as exc:
            _log.exception("session %s could not be left, trying again", given.session)
            raise _unexpected(exc) from None

    async def leave_all(self) -> None:
        """Stop the running sessions, so that other workers resume them, and accept no new
        sessions."""
        self._is_leaving = True
        while self._calls:
            for session_id in list(self._store_worker.under_way):
                await self._store_worker.stop_session(session_id, status_on_cancel="ready")
            await asyncio.sleep(_LEAVE_EVERY_S)

    async def _advance(self, store: Store, session_id: str) -> AdvanceResult:
        if self._is_leaving:
            raise _stopped()
        row = await self._read(store, session_id)
        if row.status != "ready":
            return self._result(row)
        try:
            claim, row = await _claimed(store, session_id, self._store_worker.config.lease_s)
        except SessionBusy as busy:
            busy_s = max(busy.free_in_s, 0.0)
            # In a retry, the lease is usually that of the worker that died in the first attempt.
            if activity.info().attempt > 1:
                raise _not_yet(busy_s) from None
            return self._result(await store.get(session_id), busy_s=busy_s)
        if row.status != "ready" or row.agent not in self._store_worker.serves:
            await store.release(claim)
            if row.status == "ready":
                self._check_queue(row)
            return self._result(await store.get(session_id))
        await self._run(claim, row)
        after = await store.get(session_id)
        if _is_stuck(row, after):
            raise ApplicationError("the session cannot be advanced now", type="session.stuck")
        return self._result(after)

    async def _read(self, store: Store, session_id: str) -> SessionRow:
        """Read the session; wait for an unreachable database.

        If the activity failed at once instead, all workers would retry all waiting sessions in
        turn, and would be late when the database is back.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _STORE_WAIT_S
        while True:
            try:
                return await store.get(session_id)
            except StoreUnavailable as exc:
                is_ending = self._is_leaving or self._store_worker.stopping.is_set()
                if is_ending or not exc.is_disconnected or loop.time() > give_up_at:
                    raise
                await self._store_worker.rest()

    async def _run(self, claim: Claim, row: SessionRow) -> None:
        """Advance the session. If the activity is cancelled, stop the session first.

        If the workflow was cancelled, the session becomes `idle` and can be resumed. In all other
        cases it stays `ready`, and another worker resumes it.
        """
        task = asyncio.create_task(self._store_worker.advance(claim, row))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            stays_ready = details is None or not details.cancel_requested
            status: SessionStatus = "ready" if stays_ready else "idle"
            if not await self._store_worker.stop_session(row.id, status_on_cancel=status):
                task.cancel()
            await asyncio.wait({task})
            if stays_ready:
                raise _stopped() from None
            raise

    def _check_queue(self, row: SessionRow) -> None:
        """Raise an error if the session belongs to this queue, but this worker does not know the
        agent. Another worker of the queue, e.g. of a newer version, may know it."""
        labels = self._labels.get(row.agent)
        here = activity.info().task_queue
        if labels is None or labelled_queue(self._queue, labels) == here:
            raise ApplicationError(
                "the agent is not run by this worker",
                type="agent.unknown",
                next_retry_delay=timedelta(seconds=_OTHER_WORKER_S),
                category=ApplicationErrorCategory.BENIGN,
            )

    def _result(self, row: SessionRow, *, busy_s: float | None = None) -> AdvanceResult:
        return AdvanceResult(
            status=row.status,
            agent=row.agent,
            labels=self._labels.get(row.agent, []),
            outcome=row.outcome or "",
            mark=[row.created_at_us, row.epoch],
            priority=row.priority,
            busy_s=busy_s if row.status == "ready" else None,
        )

    @activity.defn(name=RUN_TIMERS)
    async def run_timers(self) -> Due:
        """Handle due timers, and return the time until the next timer."""
        store = self._store_worker.store
        try:
            async with _heartbeats():
                await run_timers(store)
                return await until_due(store)
        except StoreError as exc:
            _log.warning("timers could not be checked, trying again: %s", exc)
            raise _without_store(exc) from None
        except Exception as exc:
            _log.exception("timers could not be checked, trying again")
            raise _unexpected(exc) from None


async def until_due(store: Store) -> Due:
    """The time until the next timer."""
    due_us = await next_due_us(store)
    if due_us is None:
        return Due(in_s=None)
    left_s = (due_us - await store.now_us()) / 1e6
    # A timer that is due already failed, or became due just now.
    return Due(in_s=left_s + _AFTER_DUE_S if left_s > 0 else _OVERDUE_S)


async def _claimed(store: Store, session_id: str, lease_s: float) -> tuple[Claim, SessionRow]:
    """Claim the session. If the call is cancelled, the claim is released."""
    claimed, cancelled = await to_the_end(
        store.claim(session_id, owner=owner_name(), lease_s=lease_s)
    )
    if cancelled is not None:
        await store.release(claimed[0])
        raise cancelled
    return claimed


def _is_untouched(row: SessionRow, mark: list[int]) -> bool:
    """Whether the session is `ready` and was not claimed since it had this mark."""
    is_free = row.status == "ready" and row.owner is None
    return is_free and (not mark or mark == [row.created_at_us, row.epoch])


def _is_stuck(before: SessionRow, after: SessionRow) -> bool:
    """Whether the session is still `ready`, and nothing has changed."""
    return (
        after.status == "ready"
        and after.owner is None
        and (after.seq, after.epoch, after.wakes, after.agent)
        == (before.seq, before.epoch, before.wakes, before.agent)
    )


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    """Send heartbeats to Temporal during the body."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    every_s = timeout.total_seconds() / BEATS

    async def beat() -> None:
        while True:
            await asyncio.sleep(every_s)  # The start of an activity counts as its first heartbeat.
            activity.heartbeat()

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def _without_store(exc: StoreError) -> ApplicationError:
    return ApplicationError(
        "the store cannot be used now", type=exc.code, category=ApplicationErrorCategory.BENIGN
    )


def _not_yet(busy_s: float) -> ApplicationError:
    """The error for a session whose lease belongs to a killed worker. Temporal retries after the
    lease, without a task of the workflow."""
    return ApplicationError(
        "the lease of another worker is not over",
        type=SessionBusy.code,
        next_retry_delay=timedelta(seconds=busy_s + AFTER_LEASE_S),
        category=ApplicationErrorCategory.BENIGN,
    )


def _unexpected(exc: Exception) -> ApplicationError:
    # The text of the exception is left out: it may contain parts of a conversation.
    return ApplicationError("unexpected", type=type(exc).__name__)


def _stopped() -> ApplicationError:
    return ApplicationError(
        "the worker stops", type="worker.stopped", category=ApplicationErrorCategory.BENIGN
    )
