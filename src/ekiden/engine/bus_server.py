"""Agents of a team on the bus: each message that one gets is a session of its own.

Agents answer in collaborations by themselves, where they have no tools to do so. To a call an agent
bids by what it can do, how much it has to do, and whether it takes anything. A request or a
proposal it takes as it is, or rejects it because it takes nothing now. Who speaks in an agent's
name, a person or a program, goes first: an agent answers after a moment, and only what is not
answered yet. An initiator never answers by itself: it began, and decides.
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
from ekiden.core.errors import SessionExists, StoreUnavailable
from ekiden.core.errors.collaboration import AnsweredAlready
from ekiden.runtime.handoff.acceptance import sessions_at_work, why_unavailable
from ekiden.runtime.questions.sessions import ANSWERS, bus_session_id, session_for
from ekiden.storage.base import Batch, Store

if TYPE_CHECKING:
    from ekiden.bus import Bus
    from ekiden.collaboration import Collaboration, Collaborations, Incoming, Offer

_MAX_TITLE = 120
_REST_S = 0.5

_log = logging.getLogger("ekiden.bus")

TO_BE_ANSWERED: Final = frozenset({"request", "propose", "counter", "accept"})
_MOMENT_S: Final = 0.5
_USUAL_SESSIONS: Final = 100
"""How many sessions an agent takes for full that has no `max_sessions`."""


def negotiates(agent: Agent[Any]) -> bool:
    """Whether the agent has tools with which it answers itself; see `negotiation_tools`."""
    return {"accept", "reject"} <= {tool.name for tool in agent.tools}


class OwnAnswers:
    """Answers in the name of agents."""

    def __init__(self, store: Store, collaborations: Collaborations) -> None:
        self._store = store
        self._collaborations = collaborations

    def bid(self, agent: Agent[Any]) -> Callable[[Collaboration], Awaitable[Offer | None]]:
        """What the agent bids for a call: its score, half of which it loses when it is full."""
        from ekiden.collaboration import Offer
        from ekiden.collaboration.reception import capability_bid

        matched = capability_bid(agent)

        async def bid(call: Collaboration) -> Offer | None:
            now = await self._after_a_moment(call)
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
        """Answer what another one said in a collaboration."""
        party = incoming.party
        if incoming.move not in TO_BE_ANSWERED or incoming.collaboration.initiator == party.name:
            return
        now = await self._after_a_moment(incoming.collaboration)
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

    async def _after_a_moment(self, found: Collaboration) -> Collaboration:
        """How the collaboration stands then; less is waited if there is little time."""
        left_s = (found.deadline_us - await self._store.now_us()) / 1e6
        await asyncio.sleep(max(min(_MOMENT_S, left_s / 4), 0.0))
        return await self._collaborations.get(found.id)

    async def _why_not(self, agent: Agent[Any]) -> str | None:
        return await why_unavailable(self._store, agent, RunContextWrapper())


class BusServer:
    """Serves the agents of a team on the bus of a store.

    A message becomes a new `ready` session of its agent: a `Worker` of the same store runs it. The
    output of the agent becomes its answer on the bus. The answer has no time limit, and
    this process may end before the answer is ready::

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
        """With `collaborations` the agents take part in collaborations. A verified request or
        proposal creates a session, in which the agent answers with its `negotiation_tools`. Agents
        answer calls for bids by their capabilities. With `answers`, agents without these tools
        answer automatically, and bids include load and availability: see `own_answers`. With
        `serves`, only these agents are served."""
        self._bus = bus
        self._collaborations = collaborations
        self._answers: OwnAnswers | None = None
        if answers and collaborations is not None:
            self._answers = OwnAnswers(store, collaborations)
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
        """Let the agent think about what another one said in a collaboration."""
        if incoming.move not in TO_BE_ANSWERED:
            return
        said, found = incoming.message, incoming.collaboration
        payload: dict[str, Any] = {"collaboration": found.id, "move": said.move, **said.body}
        if found.terms is not None:
            payload["terms"] = found.terms.body
            payload["version"] = found.terms.version
        await self._open(
            AgentMessage(
                id=f"{said.id}.{incoming.party.name}",
                type="notify",
                from_agent=said.by,
                to_agent=incoming.party.name,
                subject=f"{said.move} in collaboration {found.id}",
                payload=payload,
                correlation_id=found.id,
                created_at=said.created_at,
            )
        )

    async def _stored(self, batch: Batch) -> None:
        """Write it, however long the store is away: that is no answer to who asked."""
        while True:
            try:
                await self._store.write(batch)
            except StoreUnavailable as exc:
                _log.warning("a message waits for the store: %s", exc)
                await asyncio.sleep(_REST_S)
            else:
                return

    async def _open(self, message: AgentMessage) -> Any:
        """Make the session, once, whatever is delivered twice."""
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
        # The id is made of the message's, so that a message that is delivered twice finds the first
        # session.
        session_id = bus_session_id(agent_queue(message.to_agent or ""), message.id)
        opening = session_for(message, session_id=session_id, meta=meta)
        with suppress(SessionExists):  # It may have been delivered before.
            await self._stored(Batch(openings=[opening]))
        return LATER if message.type == "query" else None
