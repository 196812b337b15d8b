"""Starts, follows and stops runs in this process."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Literal, Unpack

from ekiden.api import runs as api
from ekiden.api.local.context import LocalPart
from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.values import Page, Pages
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.errors.server import RunNotFound, ServerStopping
from ekiden.core.events import Event
from ekiden.core.runs import ACTIVE, Run, RunStarted, parse_run_id, run_id_of
from ekiden.project.run_tasks import RunOrder
from ekiden.project.runs import RunStarter
from ekiden.project.stored_runs import read_run, until_free
from ekiden.runtime.loop.session_waits import caller, waiting_for
from ekiden.sessions.session import run_number
from ekiden.storage.base import SessionFilter


class LocalRuns(LocalPart, api.RunsApi):
    """`RunsApi` on a store in this process. Without a team, callers can only read runs and wait for
    them, and all other methods raise `UserError`."""

    @property
    def _runs(self) -> RunStarter:
        if self._context.runs is None:
            raise UserError("there is no team here that can run it: name one")
        return self._context.runs

    async def run(
        self,
        input: api.Input,
        *,
        timeout_s: float | None = None,
        **options: Unpack[api.StartOptions],
    ) -> Run:
        started = await self._runs.start(self._order(input, options))
        if timeout_s is not None:
            return await self._runs.wait(started.run_id, timeout_s=timeout_s)
        return await self.wait(started.run_id)

    def stream(
        self, input: api.Input, **options: Unpack[api.StartOptions]
    ) -> AsyncStream[api.Shown]:
        return AsyncStream(self._started(self._order(input, options)))

    async def start(self, input: api.Input, **options: Unpack[api.StartOptions]) -> Run:
        started = await self._runs.start(self._order(input, options))
        return await self._runs.read(started.run_id)

    def _order(self, input: api.Input, options: api.StartOptions) -> RunOrder:
        return order_of(input, options, may_write_history=self._context.may_write_history)

    def list(
        self,
        *,
        status: Literal["idle", "ready", "waiting"] | None = None,
        agent: str | None = None,
        user: str | None = None,
    ) -> Pages[Run]:
        where = SessionFilter(status=status, agent=agent, user_id=user)

        async def fetch(limit: int, cursor: str | None) -> Page[Run]:
            found = await self._store.list(where, limit=limit, cursor=cursor)
            items = []
            for row in found.sessions:
                if number := run_number(row):
                    with suppress(SessionNotFound, RunNotFound):  # It was just removed.
                        items.append(await self._read(run_id_of(row.id, number)))
            return Page(items=items, next_cursor=found.next_cursor)

        return Pages(fetch)

    async def get(self, run_id: str, *, wait_s: float = 0) -> Run:
        if self._context.runs is not None and wait_s:
            return await self._context.runs.wait(run_id, timeout_s=wait_s)
        return await self._waited_for(run_id, wait_s) if wait_s else await self._read(run_id)

    async def wait(self, run_id: str) -> Run:
        if self._context.runs is None:
            return await self._waited_for(run_id, math.inf)
        if caller() is None:
            return await super().wait(run_id)
        # Only an active run is waited for: code may read the earlier runs of its own session.
        if not (run := await self._read(run_id)).is_active:
            return run
        async with waiting_for(self._store, run.session_id):
            return await super().wait(run_id)

    def follow(
        self, run_id: str, *, after: int | None = None, until: api.Until = "pause"
    ) -> AsyncStream[api.Shown]:
        return AsyncStream(self._followed(run_id, after, through_waits=until == "outcome"))

    async def cancel(self, run_id: str) -> Run:
        return await self._runs.cancel(run_id)

    async def resume_and_wait(
        self,
        session_id: str,
        *,
        timeout_s: float | None = None,
        **limits: Unpack[api.LimitOptions],
    ) -> Run:
        started = await self._runs.resume(session_id, limits=api.limits_of(limits))
        if timeout_s is not None:
            return await self._runs.wait(started.run_id, timeout_s=timeout_s)
        return await self.wait(started.run_id)

    async def resume(self, session_id: str, **limits: Unpack[api.LimitOptions]) -> Run:
        started = await self._runs.resume(session_id, limits=api.limits_of(limits))
        return await self._runs.read(started.run_id)

    def follow_session(
        self, session_id: str, *, after: int | None = None
    ) -> AsyncStream[Event | ModelDelta]:
        return AsyncStream(self._session(session_id, after or 0))

    async def _read(self, run_id: str) -> Run:
        if self._context.runs is None:
            return await read_run(self._store, run_id)
        return await self._context.runs.read(run_id)

    async def _waited_for(self, run_id: str, timeout_s: float) -> Run:
        """The run once no process works on it, or at the timeout. Other processes run it."""
        session_id, number = parse_run_id(run_id)
        await until_free(self._store, session_id, number=number, timeout_s=timeout_s)
        return await self._read(run_id)

    async def _started(self, order: RunOrder) -> AsyncGenerator[api.Shown, None]:
        started, watching = await self._runs.start_watched(order)
        async with aclosing(self._shown(started.run_id, watching, ACTIVE)) as shown:
            yield RunStarted(run_id=started.run_id, session_id=started.session_id)
            async for each in shown:
                yield each

    async def _followed(
        self, run_id: str, after: int | None, *, through_waits: bool
    ) -> AsyncGenerator[api.Shown, None]:
        watching = self._runs.watch(run_id, after=after, through_waits=through_waits)
        unfinished = ACTIVE | {"waiting"} if through_waits else ACTIVE
        async with aclosing(self._shown(run_id, watching, unfinished)) as shown:
            async for each in shown:
                yield each

    async def _shown(
        self,
        run_id: str,
        watching: AsyncGenerator[Event | ModelDelta | None, None],
        unfinished: frozenset[str],
    ) -> AsyncGenerator[api.Shown, None]:
        """The events, then the run; `ServerStopping` if the run is still unfinished."""
        async with aclosing(watching):
            async for each in watching:
                if each is not None:
                    yield each
        run = await self._runs.read(run_id)
        if run.status in unfinished:
            raise ServerStopping
        yield run

    async def _session(
        self, session_id: str, after: int
    ) -> AsyncGenerator[Event | ModelDelta, None]:
        watching = self._runs.watch_session(session_id, after=after)
        async with aclosing(watching):
            async for each in watching:
                if each is not None:
                    yield each


def order_of(input: api.Input, options: api.StartOptions, *, may_write_history: bool) -> RunOrder:
    """Create the order for a run from a message and its options."""
    return RunOrder(
        input=input,
        session_id=options.get("session_id"),
        to=options.get("agent"),
        strategy=options.get("strategy"),
        user_id=options.get("user_id"),
        title=options.get("title"),
        correlation_id=options.get("correlation_id"),
        priority=options.get("priority") or "normal",
        variables=options.get("variables"),
        limits=api.limits_of(options),
        on_busy=options.get("on_busy") or "refuse",
        may_write_history=may_write_history,
    )
