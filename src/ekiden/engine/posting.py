"""What a worker does for back ends of memories: they are told what waits to be sent to them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import EkidenError
from ekiden.core.profile import MemorySettings
from ekiden.core.team import Team
from ekiden.runtime import RunConfig
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
    from ekiden.memory import elsewhere

    return elsewhere(settings.backend)
