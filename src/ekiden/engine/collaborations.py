"""Agents of a team that take part in collaborations, and the handoffs they agree on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from ekiden.core.agent import Team
from ekiden.core.conversation.messages import agent_queue
from ekiden.core.errors import EkidenError, SessionError
from ekiden.runtime import RunConfig
from ekiden.storage.base import MessageFilter, Store
from ekiden.storage.records import EXECUTIONS, MESSAGES

if TYPE_CHECKING:
    from ekiden.bus import Bus
    from ekiden.collaboration import Collaborations
    from ekiden.engine.bus_server import BusServer

_log = logging.getLogger("ekiden.worker")

_EVERY_S = 1.0
_LONGEST_S = 20.0
"""Without any hint, while there is nothing to be done."""
_AT_ONCE = 64
_PAGE = 100


class Agreeing:
    """Lets agents take part in the collaborations of a store; any number of processes may.

    Agents read their mail here while they have some, unless another process serves them on the bus:
    they bid for calls, and answer requests. Agreements are handed over here, and a worker that may
    run the target does so.
    """

    def __init__(
        self,
        store: Store,
        team: Team,
        config: RunConfig,
        *,
        serves: Collection[str] | None = None,
        stopping: Callable[[], asyncio.Event] | None = None,
    ) -> None:
        """`serves`: the agents that take part, else all that are neither people nor routers;
        `stopping`: gives what is set when nothing more is to be begun."""
        self._store = store
        self._team = team
        self._config = config
        self._stopping = stopping
        named = {
            agent.name for agent in team if not agent.traits.is_human and not agent.traits.is_router
        }
        self._serves = named if serves is None else named & set(serves)

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

    async def has_work(self) -> bool:
        """Whether an agent here has a message to read, or an agreement is to be executed."""
        if await self._has_agreements():
            return True
        return bool(await self._addressees())

    async def _look(self) -> None:
        await self._until_changed(0)  # A change before the first wait would be missed.
        while not await self._agreed() and not await self._addressees():
            # Nothing to do: the modules below are not loaded for that.
            await asyncio.sleep(_EVERY_S)
            await self._until_changed()
        from ekiden.bus import Bus, BusSettings
        from ekiden.collaboration import Collaborations
        from ekiden.runtime.agreements import HandoffExecutor

        executor = HandoffExecutor(self._team, self._store, run_config=self._config, run=False)
        async with Bus(self._store, settings=BusSettings.within(self._config.bus)) as bus:
            collaborations = Collaborations(bus, executor=executor)
            reading: dict[str, BusServer] = {}
            try:
                while True:
                    agreed = await self._agreed()
                    if agreed:
                        await collaborations.resume()
                    await self._attend(bus, collaborations, reading)
                    await asyncio.sleep(_EVERY_S)
                    if not (agreed or reading):
                        await self._until_changed()
            finally:
                for each in reading.values():
                    await each.__aexit__()

    async def _agreed(self) -> bool:
        """Whether there is an agreement to execute."""
        return bool(await self._store.list_documents(EXECUTIONS, limit=1))

    async def _until_changed(self, longest_s: float = _LONGEST_S) -> None:
        await self._store.wait_for_change(longest_s, about={EXECUTIONS, MESSAGES})

    async def _attend(
        self, bus: Bus, collaborations: Collaborations, reading: dict[str, BusServer]
    ) -> None:
        """Let only the agents with mail read it."""
        from ekiden.engine.bus_server import BusServer

        wanted = await self._addressees()
        for name in sorted(reading.keys() - wanted):
            await reading.pop(name).__aexit__()
        new = sorted(wanted - reading.keys())
        served = await bus.agents() if new else ()
        for name in new:
            if name in served:
                continue
            reader = BusServer(
                bus,
                self._store,
                self._team,
                concurrency=_AT_ONCE,
                collaborations=collaborations,
                answers=True,
                serves=[name],
            )
            reading[name] = await reader.__aenter__()

    async def _addressees(self) -> set[str]:
        """The agents here that have open messages which no session answers."""
        found, after = set[str](), 0
        while left := self._serves - found:
            where = MessageFilter(queues=[*map(agent_queue, left)], states={"open"})
            page = await self._store.find_messages(where, after=after, limit=_PAGE)
            found |= {
                each.queue.partition(":")[2]
                for each in page
                if not (each.owner or "").startswith("session:")
            }
            if len(page) < _PAGE:
                break
            after = page[-1].id
        return found

    async def _has_agreements(self) -> bool:
        """Whether an agreement was not begun yet, or is done and not put on record."""
        from ekiden.bus import Bus
        from ekiden.collaboration import Collaborations

        together = Collaborations(Bus(self._store))
        for each in await together.list(phases=("agreement", "execution")):
            if each.phase == "agreement":
                return True
            with suppress(SessionError):
                session = await self._store.get(str(each.context.get("session_id") or each.id))
                if session.outcome == "done":
                    return True
        return False
