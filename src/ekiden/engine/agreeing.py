"""Doing what agents agreed on with each other, in whatever process they did."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ekiden.core.errors import EkidenError
from ekiden.core.team import Team
from ekiden.runtime import RunConfig
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.worker")

_EVERY_S = 1.0


class Agreeing:
    """Executes the agreements of a store; any number of processes may.

    What is agreed is handed over here, and whoever gets it is run by a worker that may.
    """

    def __init__(
        self,
        store: Store,
        team: Team,
        config: RunConfig,
        *,
        stopping: Callable[[], asyncio.Event] | None = None,
    ) -> None:
        """`stopping`: gives what is set when nothing more is to be begun."""
        self._store = store
        self._team = team
        self._config = config
        self._stopping = stopping

    async def run(self) -> None:
        """Look for agreements until it is all over, and execute each."""
        stopping = asyncio.Event() if self._stopping is None else self._stopping()
        if stopping.is_set():
            return
        tasks = [
            asyncio.create_task(self._for_ever()),
            asyncio.create_task(stopping.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _for_ever(self) -> None:
        while True:
            try:
                await self._look()
            except EkidenError as exc:
                _log.warning("agreements could not be looked at, trying again: %s", exc)
            except Exception:
                _log.exception("agreements could not be looked at, trying again")
            await asyncio.sleep(_EVERY_S)

    async def _look(self) -> None:
        from ekiden.bus import Bus, BusSettings
        from ekiden.collaboration import Collaborations
        from ekiden.runtime.agreements import HandoffExecutor

        executor = HandoffExecutor(self._team, self._store, run_config=self._config, run=False)
        async with Bus(self._store, settings=BusSettings.within(self._config.bus)) as bus:
            collaborations = Collaborations(bus, executor=executor)
            while True:
                await collaborations.resume()
                await asyncio.sleep(_EVERY_S)
