"""The Temporal engine as the contract of engines drives it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from temporalio.service import RPCError

from ekiden.core.agent import Agent, Team
from ekiden.engine import submit
from ekiden.integrations.temporal import TemporalAddress, TemporalWorker
from ekiden.integrations.temporal.connection import connect
from ekiden.integrations.temporal.names import store_name, workflow_id
from ekiden.runtime import RunConfig
from ekiden.sessions import Session
from ekiden.storage.base import Store
from ekiden.testing.engine_contract import CONFIG


class TemporalEngine:
    """A worker of this process, and messages that are left for it."""

    def __init__(self, store: Store, address: str, **options: Any) -> None:
        self.store = store
        self.address = address
        self.options = options
        self._team: Agent[Any] | Team | None = None
        self._config = CONFIG
        self._has_line = False
        """Whether it matters in which order sessions are known to Temporal."""
        self.worker: TemporalWorker | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(
        self, team: Agent[Any] | Team, *, config: RunConfig = CONFIG, concurrency: int = 16
    ) -> None:
        self.prepare(team, config)
        self._has_line = concurrency == 1
        self.worker = TemporalWorker(
            self.store,
            team,
            address=self.address,
            run_config=config,
            concurrency=concurrency,
            **self.options,
        )
        self._running = asyncio.create_task(self.worker.run())

    def prepare(self, team: Agent[Any] | Team, config: RunConfig = CONFIG) -> None:
        """Let messages be left for a worker that is started later."""
        self._team, self._config = team, config

    def config(self, **changes: Any) -> RunConfig:
        """The usual configuration, with changes."""
        return replace(CONFIG, **changes)

    async def stop(self, *, drain: bool = True) -> None:
        worker, self.worker = self.worker, None
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
        if self._has_line:
            await self._in_line(session_id)

    async def _in_line(self, session_id: str) -> None:
        """Return when Temporal knows of the session: only then it stands in line."""
        client = await connect(TemporalAddress(self.address))
        handle = client.get_workflow_handle(workflow_id(await store_name(self.store), session_id))
        async with asyncio.timeout(60):
            while (await self.store.get(session_id)).status == "ready":
                with suppress(RPCError):
                    if (await handle.describe()).raw_description.pending_activities:
                        return
                await asyncio.sleep(0.02)

    async def cancel(self, session_id: str) -> None:
        assert self.worker is not None, "the engine is not started"
        await self.worker.cancel(session_id)
