"""Serves the agents of a team on the bus. Each message to an agent becomes a session of its own.

Agents without negotiation tools can also answer automatically in collaborations. An agent bids for
a call according to its capabilities, its load and its availability. It accepts requests and
proposals unchanged, or rejects them if it is not available. A person or program may answer in the
agent's name first. So the agent waits a moment, and answers only if no answer has come. The agent
that started a collaboration never answers automatically.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.messages import AgentMessage, agent_queue
from ekiden.core.errors import EkidenError, SessionError, SessionExists, StoreUnavailable
from ekiden.core.errors.collaboration import AnsweredAlready
from ekiden.runtime import RunConfig
from ekiden.runtime.handoff.acceptance import sessions_at_work, why_unavailable
from ekiden.runtime.questions.sessions import ANSWERS, bus_session_id, session_for
from ekiden.storage.base import Batch, MessageFilter, Store
from ekiden.storage.records import EXECUTIONS, MESSAGES

if TYPE_CHECKING:
    from ekiden.bus import Bus
    from ekiden.collaboration import Collaboration, Collaborations, Incoming, Offer

_MAX_TITLE = 120
_REST_S = 0.5

_log = logging.getLogger("ekiden.bus")

TO_BE_ANSWERED: Final = frozenset({"request", "propose", "counter", "accept"})
_MOMENT_S: Final = 0.5
_USUAL_SESSIONS: Final = 100
"""The assumed maximum number of sessions of an agent without `max_sessions`."""


def negotiates(agent: Agent[Any]) -> bool:
    """Whether the agent has tools with which its model can answer. See `negotiation_tools`."""
    return {"accept", "reject"} <= {tool.name for tool in agent.tools}


class AutomaticAnswers:
    """Answers in collaborations in the name of agents."""

    def __init__(self, store: Store, collaborations: Collaborations) -> None:
        self._store = store
        self._collaborations = collaborations

    def bid(self, agent: Agent[Any]) -> Callable[[Collaboration], Awaitable[Offer | None]]:
        """A function that returns the agent's bid for a call. At full load, the score is halved."""
        from ekiden.collaboration import Offer
        from ekiden.collaboration.collaborations import capability_bid

        matched = capability_bid(agent)

        async def bid(call: Collaboration) -> Offer | None:
            now = await self._wait_a_moment(call)
            if now.phase != "discovery" or agent.name not in now.unanswered:
                raise AnsweredAlready("answered the call", agent.name, collaboration_id=call.id)
            found = await matched(call)
            if found is None or await self._why_not(agent) is not None:
                return None
            load = await sessions_at_work(self._store, agent.name)
            share = min(load / (agent.max_sessions or _USUAL_SESSIONS), 1.0)
            score = round(found.score * (1 - share / 2), 4)
            return Offer(score=score, offer={**found.offer, "load": load})

        return bid

    async def respond(self, agent: Agent[Any], incoming: Incoming) -> None:
        """Answer a request or proposal of another agent."""
        party = incoming.party
        if incoming.move not in TO_BE_ANSWERED or incoming.collaboration.initiator == party.name:
            return
        now = await self._wait_a_moment(incoming.collaboration)
        is_open = now.phase == "negotiation" and party.name not in now.accepted_by
        if not is_open or now.terms is None or now.partner != party.name:
            return
        why = await self._why_not(agent)
        if why is not None:
            await party.reject(now.id, reason=f"{agent.name} takes nothing now: {why}")
        elif incoming.move == "request" and now.terms.version == 1:
            await party.acknowledge(now.id)
        else:
            await party.accept(now.id, now.terms.version)

    async def _wait_a_moment(self, found: Collaboration) -> Collaboration:
        """Let a person or program answer first; returns the current collaboration. The wait is
        shorter if the deadline is near."""
        left_s = (found.deadline_us - await self._store.now_us()) / 1e6
        await asyncio.sleep(max(min(_MOMENT_S, left_s / 4), 0.0))
        return await self._collaborations.get(found.id)

    async def _why_not(self, agent: Agent[Any]) -> str | None:
        return await why_unavailable(self._store, agent, RunContextWrapper())


class BusServer:
    """Serves the agents of a team on the bus of a store.

    Each message creates a new `ready` session of the addressed agent, which a `Worker` of the same
    store runs. The output of the agent becomes its answer on the bus. The answer may take any time,
    and this process may end before the answer is ready::

        async with Bus(store) as bus, BusServer(bus, store, team):
            await Worker(store, team).run()
    """

    def __init__(
        self,
        bus: Bus,
        store: Store,
        team: Agent[Any] | Team,
        *,
        concurrency: int = 16,
        collaborations: Collaborations | None = None,
        answers: bool = False,
        serves: Collection[str] | None = None,
    ) -> None:
        """With `collaborations`, the agents take part in collaborations. A verified request or
        proposal creates a session, in which the agent answers with its `negotiation_tools`.

        Agents answer calls for bids according to their capabilities. With `answers`, agents without
        these tools answer automatically, and bids depend on load and availability (see
        `own_answers`). With `serves`, only the named agents are served.
        """
        self._bus = bus
        self._collaborations = collaborations
        self._answers: AutomaticAnswers | None = None
        if answers and collaborations is not None:
            self._answers = AutomaticAnswers(store, collaborations)
        self._store = store
        self._team = team if isinstance(team, Team) else Team(team)
        self._concurrency = concurrency
        self._serves = serves
        self._services = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            for agent in self._team:
                if self._serves is not None and agent.name not in self._serves:
                    continue
                service = await self._bus.serve(
                    agent.name, self._handler(agent), concurrency=self._concurrency
                )
                await self._services.enter_async_context(service)
        except BaseException:
            await self._services.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._services.aclose()

    def _handler(self, agent: Agent[Any]) -> Callable[[AgentMessage], Awaitable[Any]]:
        if self._collaborations is None:
            return self._open
        bid, respond = None, self._consider
        if self._answers is not None:
            bid = self._answers.bid(agent)
            if not negotiates(agent):
                respond = partial(self._answers.respond, agent)
        return self._collaborations.handler(agent, respond, bid=bid, otherwise=self._open)

    async def _consider(self, incoming: Incoming) -> None:
        """Open a session in which the agent answers a request or proposal."""
        if incoming.move not in TO_BE_ANSWERED:
            return
        message, found = incoming.message, incoming.collaboration
        payload: dict[str, Any] = {"collaboration": found.id, "move": message.move, **message.body}
        if found.terms is not None:
            payload["terms"] = found.terms.body
            payload["version"] = found.terms.version
        await self._open(
            AgentMessage(
                id=f"{message.id}.{incoming.party.name}",
                type="notify",
                from_agent=message.by,
                to_agent=incoming.party.name,
                subject=f"{message.move} in collaboration {found.id}",
                payload=payload,
                correlation_id=found.id,
                created_at=message.created_at,
            )
        )

    async def _write(self, batch: Batch) -> None:
        """Write the batch. Waits while the store is unreachable, because an error would become the
        answer to the asking agent."""
        while True:
            try:
                await self._store.write(batch)
            except StoreUnavailable as exc:
                _log.warning("a message waits for the store: %s", exc)
                await asyncio.sleep(_REST_S)
            else:
                return

    async def _open(self, message: AgentMessage) -> Any:
        """Create the session of the message, once, even if the message is delivered twice."""
        from ekiden.bus import LATER

        meta: dict[str, Any] = {
            "title": message.subject[:_MAX_TITLE],
            "task_id": message.task or message.id,
            "correlation_id": message.correlation_id or message.id,
            "asked_by": message.from_agent,
            "ask_depth": max(message.depth, 1),
        }
        if message.type == "query":
            meta[ANSWERS] = message.id
        # The id is derived from the message's id, so a second delivery finds the first session.
        session_id = bus_session_id(agent_queue(message.to_agent or ""), message.id)
        opening = session_for(message, session_id=session_id, meta=meta)
        with suppress(SessionExists):
            await self._write(Batch(openings=[opening]))
        return LATER if message.type == "query" else None


_EVERY_S = 1.0
_LONGEST_S = 20.0
"""The longest wait for a change while there is nothing to do."""
_CONCURRENCY = 64
_PAGE = 100
_worker_log = logging.getLogger("ekiden.worker")


class CollaborationWorker:
    """Lets agents take part in the collaborations of a store. Any number of processes may use this
    class for one store.

    An agent is served while it has messages, unless another process serves it on the bus. A served
    agent bids for calls, and answers requests. Agreements are executed as handoffs, whose targets
    run in a worker.
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
        """`serves` contains the agents that take part, by default all agents except people and
        routers. `stopping` returns an event. When this event is set, `run` ends."""
        self._store = store
        self._team = team
        self._config = config
        self._stopping = stopping
        named = {
            agent.name for agent in team if not agent.traits.is_human and not agent.traits.is_router
        }
        self._serves = named if serves is None else named & set(serves)

    async def run(self) -> None:
        """Serve agents and execute agreements until `stopping` is set."""
        stopping = asyncio.Event() if self._stopping is None else self._stopping()
        if stopping.is_set():
            return
        tasks = [asyncio.create_task(self._for_ever()), asyncio.create_task(stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _for_ever(self) -> None:
        while True:
            try:
                await self._serve()
            except EkidenError as exc:
                _worker_log.warning("agreements could not be checked, trying again: %s", exc)
            except Exception:
                _worker_log.exception("agreements could not be checked, trying again")
            await asyncio.sleep(_EVERY_S)

    async def has_work(self) -> bool:
        """Whether an agent of this process has an unread message, or an agreement has to be
        executed."""
        return await self._has_agreements() or bool(await self._addressees())

    async def _serve(self) -> None:
        await self._until_changed(0)  # A change before the first wait would be missed.
        # The modules below are only loaded when there is something to do.
        while not await self._is_agreed() and not await self._addressees():
            await asyncio.sleep(_EVERY_S)
            await self._until_changed()
        from ekiden.bus import Bus, BusSettings
        from ekiden.collaboration import Collaborations
        from ekiden.runtime.handoffs import HandoffExecutor

        executor = HandoffExecutor(self._team, self._store, run_config=self._config, run=False)
        async with Bus(self._store, settings=BusSettings.within(self._config.bus)) as bus:
            collaborations = Collaborations(bus, executor=executor)
            servers: dict[str, BusServer] = {}
            try:
                while True:
                    is_agreed = await self._is_agreed()
                    if is_agreed:
                        await collaborations.resume()
                    await self._update_servers(bus, collaborations, servers)
                    await asyncio.sleep(_EVERY_S)
                    if not (is_agreed or servers):
                        await self._until_changed()
            finally:
                for each in servers.values():
                    await each.__aexit__()

    async def _is_agreed(self) -> bool:
        """Whether there is an agreement to execute."""
        return bool(await self._store.list_documents(EXECUTIONS, limit=1))

    async def _until_changed(self, longest_s: float = _LONGEST_S) -> None:
        await self._store.wait_for_change(longest_s, about={EXECUTIONS, MESSAGES})

    async def _update_servers(
        self, bus: Bus, collaborations: Collaborations, servers: dict[str, BusServer]
    ) -> None:
        """Serve exactly the agents that have messages."""
        wanted = await self._addressees()
        for name in sorted(servers.keys() - wanted):
            await servers.pop(name).__aexit__()
        new = sorted(wanted - servers.keys())
        served = await bus.agents() if new else ()
        for name in new:
            if name in served:
                continue
            server = BusServer(
                bus,
                self._store,
                self._team,
                concurrency=_CONCURRENCY,
                collaborations=collaborations,
                answers=True,
                serves=[name],
            )
            servers[name] = await server.__aenter__()

    async def _addressees(self) -> set[str]:
        """The agents here with open messages that no session answers."""
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
        """Whether an agreement is not executed yet, or its finished execution is not recorded."""
        from ekiden.bus import Bus
        from ekiden.collaboration import Collaborations

        collaborations = Collaborations(Bus(self._store))
        for each in await collaborations.list(phases=("agreement", "execution")):
            if each.phase == "agreement":
                return True
            with suppress(SessionError):
                session = await self._store.get(str(each.context.get("session_id") or each.id))
                if session.outcome == "done":
                    return True
        return False
