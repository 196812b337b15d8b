"""The engines of this project as the contract of engines drives them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.runs import Waiting
from ekiden.engine import Worker, submit
from ekiden.runtime import RunConfig, Runner
from ekiden.runtime.questions.cancel_question import is_left
from ekiden.runtime.results import RunResult
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow, Store
from ekiden.testing.engine_contract import CONFIG


class _Stored:
    """A sink that tells when the first event of a run is stored."""

    def __init__(self) -> None:
        self.is_so = asyncio.Event()

    def emit(self, event: Event) -> None:
        self.is_so.set()


class InlineEngine:
    """A program that runs its sessions itself, each in a task of its own, and waits for people."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._team: Agent[Any] | Team | None = None
        self._config = CONFIG
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}

    async def start(
        self, team: Agent[Any] | Team, *, config: RunConfig = CONFIG, concurrency: int = 16
    ) -> None:
        self._team, self._config = team, config
        for row in (await self.store.list(limit=1000)).sessions:
            if "asked_in" not in row.meta and (row.status != "idle" or is_left(row)):
                self._begin(row.id, self._go_on(row))

    async def stop(self, *, drain: bool = True) -> None:
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        if drain:
            rows = {name: await self._row(name) for name in self._tasks}
            busy = [
                task
                for name, tasks in self._tasks.items()
                for task in tasks
                if (row := rows[name]) is None or row.status != "waiting"
            ]
            await asyncio.gather(*busy)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def submit(self, text: str, session_id: str, *, priority: int | str = "normal") -> None:
        stored = _Stored()
        config = replace(self._config, sinks=(*self._config.sinks, stored))
        session = Session(session_id, store=self.store, priority=priority)
        running = Runner.run(self._started, text, session=session, run_config=config)
        task = self._begin(session_id, self._to_the_end(session_id, running))
        told = asyncio.create_task(stored.is_so.wait())
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()

    async def cancel(self, session_id: str) -> None:
        tasks = list(self._tasks.get(session_id, ()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _started(self) -> Agent[Any] | Team:
        assert self._team is not None, "the engine is not started"
        return self._team

    def _begin(self, session_id: str, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        tasks = self._tasks.setdefault(session_id, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def _go_on(self, row: SessionRow) -> None:
        session = Session(row.id, store=self.store)
        if row.status == "waiting":
            await self._wait(row.id)
        else:
            resuming = Runner.resume(self._started, session, run_config=self._config)
            await self._to_the_end(row.id, resuming)

    async def _to_the_end(self, session_id: str, running: Any) -> None:
        with suppress(Exception):  # It is stored in the session.
            result: RunResult = await running
            if isinstance(result.outcome, Waiting):
                await self._wait(session_id)

    async def _wait(self, session_id: str) -> None:
        session = Session(session_id, store=self.store)
        with suppress(Exception):
            await Runner.wait(self._started, session, run_config=self._config)

    async def _row(self, session_id: str) -> SessionRow | None:
        with suppress(EkidenError):
            return await self.store.get(session_id)
        return None


class WorkerEngine:
    """A worker of this process, and messages that are left for it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._team: Agent[Any] | Team | None = None
        self._config = CONFIG
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(
        self, team: Agent[Any] | Team, *, config: RunConfig = CONFIG, concurrency: int = 16
    ) -> None:
        self._team, self._config = team, config
        self._worker = Worker(self.store, team, run_config=config, concurrency=concurrency)
        self._running = asyncio.create_task(self._worker.run())

    async def stop(self, *, drain: bool = True) -> None:
        worker, self._worker = self._worker, None
        running, self._running = self._running, None
        if worker is None or running is None:
            return
        if drain:
            worker.stop()
        else:
            running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    async def submit(self, text: str, session_id: str, *, priority: int | str = "normal") -> None:
        assert self._team is not None, "the engine is not started"
        session = Session(session_id, store=self.store, priority=priority)
        await submit(self._team, text, session=session, run_config=self._config)

    async def cancel(self, session_id: str) -> None:
        assert self._worker is not None, "the engine is not started"
        await self._worker.cancel(session_id)
