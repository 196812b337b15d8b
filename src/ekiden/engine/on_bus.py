"""Agents of a team on the bus: each message that one gets is a session of its own."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from ekiden.core.agent import Agent
from ekiden.core.errors import SessionExists
from ekiden.core.messages import AgentMessage
from ekiden.core.team import Team
from ekiden.runtime.question_sessions import ANSWERS, session_for
from ekiden.storage.base import Batch, Store

if TYPE_CHECKING:
    from ekiden.bus import Bus

_MAX_TITLE = 120


class TeamOnBus:
    """Serves the agents of a team on the bus of a store.

    A message is a new session of the agent it is for, and `ready`: a `Worker` of the same store
    runs it. What the agent answers a question is its answer on the bus, however long it takes, and
    whether or not this process is still there then::

        async with Bus(store) as bus, TeamOnBus(bus, store, team):
            await Worker(store, team).run()
    """

    def __init__(
        self, bus: Bus, store: Store, team: Agent[Any] | Team, *, concurrency: int = 16
    ) -> None:
        self._bus = bus
        self._store = store
        self._team = team if isinstance(team, Team) else Team(team)
        self._concurrency = concurrency
        self._services = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            for agent in self._team:
                service = await self._bus.serve(
                    agent.name, self._open, concurrency=self._concurrency
                )
                await self._services.enter_async_context(service)
        except BaseException:
            await self._services.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._services.aclose()

    async def _open(self, message: AgentMessage) -> Any:
        """Make the session, once, whatever is delivered twice."""
        from ekiden.bus import LATER

        meta: dict[str, Any] = {
            "title": message.subject[:_MAX_TITLE],
            "task_id": message.task or message.id,
            "correlation_id": message.correlation_id or message.id,
            "asked_by": message.from_agent,
            "ask_depth": 1,
        }
        if message.type == "query":
            meta[ANSWERS] = message.id
        opening = session_for(message, session_id=f"bus.{message.id}", meta=meta)
        with suppress(SessionExists):  # It may have been delivered before.
            await self._store.write(Batch(openings=[opening]))
        return LATER if message.type == "query" else None
