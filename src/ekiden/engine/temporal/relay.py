"""The relay: what is to be done stands in the store, and becomes signals.

Doors write to the store and know of no engine. A session that is `ready` while nobody has it is the
order to advance it, so there is no other outbox, and nothing is lost while no relay is alive.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError

from ekiden.core.errors import StoreError
from ekiden.engine.temporal.attributes import first_attributes, keyword
from ekiden.engine.temporal.names import workflow_id
from ekiden.engine.temporal.office import Office
from ekiden.engine.temporal.payloads import SessionJob, Wake
from ekiden.engine.temporal.reminding import Reminder
from ekiden.engine.temporal.session_workflow import SessionWorkflow, priority_of
from ekiden.storage.base import SessionFilter, SessionRow, Store

_log = logging.getLogger("ekiden.temporal")

_PAGE = 200
_SHORT = 12
_AT_ONCE = 32
"""Signals that are under way at the same time."""
_IDLE_S = 0.5
"""How long to wait for a hint before looking anyway: leases that ran out send none."""
_STANDBY_S = 0.5
_REST = 2.0
"""A look is followed by a pause of so many times its length, so that looking at a long queue does
not become the store's main work."""
_MOMENT_S = 0.005
_TASK = timedelta(seconds=3)
"""A worker that has a workflow for longer was killed: what workflows do takes milliseconds."""
_AGAIN_S = 15.0
_LONGEST_AGAIN_S = 240.0
"""A session that is still ready after so long is signalled again, ever more rarely: its workflow
may have been terminated, or the cluster may have lost it."""


@dataclass(slots=True, kw_only=True)
class _Sent:
    """What was signalled for a session that is still ready."""

    mark: list[int]
    again_at: float
    pause_s: float = _AGAIN_S


class Relay:
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
        self._office = Office(store, f"relay/{job.queue}/{_digest(labels)}")
        self._sent: dict[str, _Sent] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._reminder = Reminder(store, client, job=job, task=_TASK)

    async def run(self) -> None:
        """Look whenever there may be something, for ever. What fails is tried again."""
        try:
            while True:
                await self._look_and_wait()
        finally:
            await self._leave()

    async def _look_and_wait(self) -> None:
        begun = asyncio.get_running_loop().time()
        try:
            if not await self._office.hold():
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
        self._sent = {row.id: self._sent[row.id] for row in ready if row.id in self._sent}
        now = asyncio.get_running_loop().time()
        due = [row for row in ready if self._is_due(row, now)]
        async with asyncio.TaskGroup() as group:
            for row in due:
                await self._slots.acquire()
                group.create_task(self._signal(row, now)).add_done_callback(
                    lambda _: self._slots.release()
                )
        await self._reminder.look(now)

    async def _ready(self) -> list[SessionRow]:
        """The sessions that nobody has."""
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

    def _is_due(self, row: SessionRow, now: float) -> bool:
        sent = self._sent.get(row.id)
        return sent is None or sent.mark != _mark(row) or now >= sent.again_at

    async def _signal(self, row: SessionRow, now: float) -> None:
        """Wake the workflow of the session, which is started if there is none."""
        sent, mark = self._sent.get(row.id), _mark(row)
        is_again = sent is not None and sent.mark == mark
        # It may still stand in a line, where one that says nothing new is to cost nothing.
        is_doubted = sent is not None and is_again and sent.pause_s > _AGAIN_S
        labels = self._labels[row.agent]
        job = replace(
            self._job, session=row.id, agent=row.agent, labels=labels, priority=row.priority
        )
        wake = Wake(
            agent=row.agent,
            labels=labels,
            mark=None if is_doubted else mark,
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
            return
        pause_s = _AGAIN_S
        if sent is not None and is_again:
            pause_s = min(sent.pause_s * 2, _LONGEST_AGAIN_S)
        self._sent[row.id] = _Sent(mark=mark, again_at=now + pause_s, pause_s=pause_s)


def _mark(row: SessionRow) -> list[int]:
    """By which a later state of a session is known from an earlier one."""
    return [row.created_at_us, row.epoch]


def _digest(labels: Mapping[str, list[str]]) -> str:
    """The same for those who know the same agents."""
    told = json.dumps({name: sorted(needed) for name, needed in labels.items()}, sort_keys=True)
    return hashlib.sha256(told.encode("utf-8")).hexdigest()[:_SHORT]
