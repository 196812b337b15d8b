"""The activities of workflows: advancing sessions, and handling timers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ekiden.core.errors import (
    LeaseLost,
    SessionBusy,
    SessionNotFound,
    StoreError,
    StoreUnavailable,
)
from ekiden.core.values import owner_name
from ekiden.engine.store_worker import StoreWorker
from ekiden.integrations.temporal.names import AdvanceResult, Due, Errand, labelled_queue
from ekiden.integrations.temporal.workflows import ADVANCE, AFTER_LEASE_S, LEAVE, RUN_TIMERS
from ekiden.runtime.questions.due import run_timers
from ekiden.runtime.state.calls import to_the_end
from ekiden.storage.base import Claim, Commit, SessionPatch, SessionRow, SessionStatus, Store
from ekiden.storage.timers import next_due_us

_log = logging.getLogger("ekiden.temporal")

BEATS = 3
"""Heartbeats in the time after which a worker is taken for dead."""
_ELSEWHERE_S = 1.0
"""After so long another worker is tried for an agent that this one does not have."""
_HOLD_S = 10.0
"""How long an activity waits for a database that cannot be reached; then another worker may try."""
_LEAVE_EVERY_S = 0.02
_MOMENT_S = 0.001
_OVERDUE_S = 0.1


class Activities:
    """The activities of one worker.

    An error makes Temporal retry, here or at another worker, and Temporal shows it: so it names the
    kind of failure and contains nothing of a conversation. A failure of the session itself is not a
    failure of the activity, but its outcome.
    """

    def __init__(
        self, store_worker: StoreWorker, labels: Mapping[str, list[str]], *, queue: str
    ) -> None:
        """`labels`: where each agent of the team runs."""
        self._store_worker = store_worker
        self._labels = labels
        self._queue = queue
        self._is_leaving = False
        self._calls = 0

    @activity.defn(name=ADVANCE)
    async def advance(self, errand: Errand) -> AdvanceResult:
        """Run the session to an outcome, if it has work and no other owner."""
        store = self._store_worker.store
        self._calls += 1
        try:
            async with _heartbeats():
                return await self._advance(store, errand.session)
        except SessionNotFound:
            return AdvanceResult(status="gone")
        except StoreError as exc:
            _log.warning("session %s is left for later: %s", errand.session, exc)
            raise _without_store(exc) from None
        except ApplicationError:
            raise
        except Exception as exc:
            _log.exception("session %s cannot be advanced, trying again", errand.session)
            raise _unexpected(exc) from None
        finally:
            self._calls -= 1

    @activity.defn(name=LEAVE)
    async def leave(self, errand: Errand) -> None:
        """Leave the session `idle` if its run has not begun, so that it can be resumed."""
        store = self._store_worker.store
        try:
            row = await store.get(errand.session)
            if not _is_untouched(row, errand.mark):
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
            _log.warning("session %s could not be left, trying again: %s", errand.session, exc)
            raise _without_store(exc) from None
        except Exception as exc:
            _log.exception("session %s could not be left, trying again", errand.session)
            raise _unexpected(exc) from None

    async def leave_all(self) -> None:
        """Leave the sessions under way to others, and take no further one."""
        self._is_leaving = True
        while self._calls:
            for session_id in list(self._store_worker.under_way):
                await self._store_worker.stop_session(session_id, status_on_cancel="ready")
            await asyncio.sleep(_LEAVE_EVERY_S)

    async def _advance(self, store: Store, session_id: str) -> AdvanceResult:
        if self._is_leaving:
            raise _stopped()
        before = await self._found(store, session_id)
        if before.status != "ready":
            return self._result(before)
        try:
            claim, row = await _claimed(store, session_id, self._store_worker.config.lease_s)
        except SessionBusy as busy:
            busy_s = max(busy.free_in_s, 0.0)
            if activity.info().attempt > 1:
                raise _not_yet(busy_s) from None
            return self._result(await store.get(session_id), busy_s=busy_s)
        if row.status != "ready" or row.agent not in self._store_worker.serves:
            await store.release(claim)
            if row.status == "ready":
                self._check_place(row)
            return self._result(await store.get(session_id))
        await self._work(claim, row)
        after = await store.get(session_id)
        if _is_stuck(row, after):
            raise ApplicationError("the session cannot be advanced now", type="session.stuck")
        return self._result(after)

    async def _found(self, store: Store, session_id: str) -> SessionRow:
        """The session, as soon as the database can be reached.

        An activity that failed at once would be tried again and again by every worker, for every
        session in line, and would come late when the database is back.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _HOLD_S
        while True:
            try:
                return await store.get(session_id)
            except StoreUnavailable as exc:
                is_over = self._is_leaving or self._store_worker.stopping.is_set()
                if is_over or not exc.is_disconnected or loop.time() > give_up_at:
                    raise
                await self._store_worker.rest()

    async def _work(self, claim: Claim, row: SessionRow) -> None:
        """Advance the session, also when the activity is cancelled.

        Cancelling the workflow stops the session: it is left `idle` and can be resumed. In all
        other cases another worker resumes it.
        """
        working = asyncio.create_task(self._store_worker.advance(claim, row))
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            is_wanted = details is None or not details.cancel_requested
            status_on_cancel: SessionStatus = "ready" if is_wanted else "idle"
            if not await self._store_worker.stop_session(row.id, status_on_cancel=status_on_cancel):
                working.cancel()
            await asyncio.wait({working})
            if is_wanted:
                raise _stopped() from None
            raise

    def _check_place(self, row: SessionRow) -> None:
        """Let another worker of this queue try, if the session is right here and its agent is
        not: workers of several versions may be at work."""
        labels = self._labels.get(row.agent)
        here = activity.info().task_queue
        if labels is None or labelled_queue(self._queue, labels) == here:
            raise ApplicationError(
                "the agent is not run by this worker",
                type="agent.unknown",
                next_retry_delay=timedelta(seconds=_ELSEWHERE_S),
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
        """See to what is due."""
        store = self._store_worker.store
        try:
            async with _heartbeats():
                await run_timers(store)
                return await until_due(store)
        except StoreError as exc:
            _log.warning("timers could not be looked at, trying again: %s", exc)
            raise _without_store(exc) from None
        except Exception as exc:
            _log.exception("timers could not be looked at, trying again")
            raise _unexpected(exc) from None


async def until_due(store: Store) -> Due:
    """How long it is until the next timer."""
    due_us = await next_due_us(store)
    if due_us is None:
        return Due(in_s=None)
    left_s = (due_us - await store.now_us()) / 1e6
    # One that is due already was left by somebody who failed, or came due just now.
    return Due(in_s=left_s + _MOMENT_S if left_s > 0 else _OVERDUE_S)


async def _claimed(store: Store, session_id: str, lease_s: float) -> tuple[Claim, SessionRow]:
    """Claim the session; a cancelled call leaves no claim."""
    claimed, cancelled = await to_the_end(
        store.claim(session_id, owner=owner_name(), lease_s=lease_s)
    )
    if cancelled is not None:
        await store.release(claimed[0])
        raise cancelled
    return claimed


def _is_untouched(row: SessionRow, mark: list[int]) -> bool:
    """Whether the session had no owner since it was read."""
    is_free = row.status == "ready" and row.owner is None
    return is_free and (not mark or mark == [row.created_at_us, row.epoch])


def _is_stuck(before: SessionRow, after: SessionRow) -> bool:
    """Whether nothing at all became of a session that is still to be advanced."""
    return (
        after.status == "ready"
        and after.owner is None
        and (after.seq, after.epoch, after.wakes, after.agent)
        == (before.seq, before.epoch, before.wakes, before.agent)
    )


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    """Tell Temporal during the body that this worker lives."""
    limit = activity.info().heartbeat_timeout
    if limit is None:
        yield
        return
    beating = asyncio.create_task(_beat(limit.total_seconds() / BEATS))
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.wait({beating})


async def _beat(every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)  # The start of an activity counts as its first.
        activity.heartbeat()


def _without_store(exc: StoreError) -> ApplicationError:
    return ApplicationError(
        "the store cannot be used now", type=exc.code, category=ApplicationErrorCategory.BENIGN
    )


def _not_yet(busy_s: float) -> ApplicationError:
    """The worker of the try before this one was killed, and its lease lasts so long: Temporal waits
    for the end of it, which takes no task of the workflow."""
    return ApplicationError(
        "the lease of another worker is not over",
        type=SessionBusy.code,
        next_retry_delay=timedelta(seconds=busy_s + AFTER_LEASE_S),
        category=ApplicationErrorCategory.BENIGN,
    )


def _unexpected(exc: Exception) -> ApplicationError:
    """Instead of the error, whose text may contain parts of a conversation."""
    return ApplicationError("unexpected", type=type(exc).__name__)


def _stopped() -> ApplicationError:
    return ApplicationError(
        "the worker stops", type="worker.stopped", category=ApplicationErrorCategory.BENIGN
    )
