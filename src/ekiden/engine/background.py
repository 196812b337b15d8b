"""Background tasks of a worker, apart from its sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Protocol

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import EkidenError
from ekiden.core.profile import MemorySettings
from ekiden.engine.fleet import BackgroundWork
from ekiden.engine.housekeeping import Housekeeping, Timekeeping
from ekiden.engine.registry import Enlisting
from ekiden.engine.stops import StopHere, Stops
from ekiden.engine.store_worker import StoreWorker
from ekiden.runtime import RunConfig
from ekiden.sessions.retention import Retention
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.worker")

_EVERY_S = 5.0


class Posting:
    """Delivers for the agents of a team that have a back end; any number of processes may."""

    def __init__(self, store: Store, team: Team, config: RunConfig) -> None:
        self._store = store
        self._config = config
        self._backends = sorted({name for agent in team if (name := _backend(agent)) is not None})

    async def run(self) -> None:
        """Deliver now and then, for ever; where there is no back end, do nothing."""
        while self._backends:
            await self.once()
            await asyncio.sleep(_EVERY_S)

    async def once(self) -> None:
        """Deliver what is due. What fails is tried again the next time."""
        from ekiden.memory import Memory

        for name in self._backends:
            memory = Memory(
                self._store,
                settings=MemorySettings(type="vector", backend=name),
                embedder=self._config.embedder,
            )
            try:
                await memory.deliver()
            except EkidenError as exc:
                _log.warning("memories could not be sent to %s, trying again: %s", name, exc)
            except Exception:
                _log.exception("memories could not be sent to %s, trying again", name)


def _backend(agent: Agent[Any]) -> str | None:
    settings = agent.memory
    if settings is None or settings.backend is None or settings.type != "vector":
        return None
    from ekiden.memory import remote_backend

    return remote_backend(settings.backend)


class Crew(Protocol):
    """Those who run the sessions."""

    @property
    def concurrency(self) -> int:
        """How many sessions they run at a time."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether no further session is taken."""
        ...


def background_work(
    station: StoreWorker,
    fleet: Crew,
    *,
    retention: Retention,
    labels: Collection[str],
    engine: str,
    also_stops: StopHere | None = None,
    rarely: bool = False,
    keeps_time: bool = True,
) -> list[BackgroundWork]:
    """Keep time, tidy up, deliver memories, stop what is to be stopped, be on the list of workers.

    `rarely`: the store is one of many, and is checked less often. Without `keeps_time` other
    processes handle timers.
    """
    enlisting = Enlisting(
        station,
        concurrency=fleet.concurrency,
        labels=labels,
        engine=engine,
        is_draining=lambda: fleet.is_stopping,
    )
    timing = [Timekeeping(station.store, rarely=rarely).run] if keeps_time else []
    return [
        *timing,
        Housekeeping(station.store, retention, policy=station.config.bus.victim).run,
        Posting(station.store, station.team, station.config).run,
        Stops(station, also=also_stops).run,
        enlisting.run,
    ]
