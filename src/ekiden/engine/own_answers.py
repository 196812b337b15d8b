"""How agents answer in collaborations by themselves, where they have no tools to do so.

To a call an agent bids by what it can do, how much it has to do, and whether it takes anything. A
request or a proposal it takes as it is, or rejects it because it takes nothing now. Who speaks in
an agent's name, a person or a program, goes first: an agent answers after a moment, and only what
is not answered yet. An initiator never answers by itself: it began, and decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors.collaboration import AnsweredAlready
from ekiden.runtime.handoff.targets import sessions_at_work, why_unavailable
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.collaboration import Collaboration, Collaborations, Incoming, Offer

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
        from ekiden.collaboration.bidding import capability_bid

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
