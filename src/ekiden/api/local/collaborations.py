"""Collaborations of the local team in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.api import collaborations as api
from ekiden.api.local.context import LocalContext, LocalPart
from ekiden.api.methods.values import Page, Pages
from ekiden.bus import Bus, BusSettings
from ekiden.collaboration import Collaboration, Collaborations, Party
from ekiden.collaboration.record import Phase
from ekiden.core.documents import from_json


class LocalCollaborations(LocalPart, api.CollaborationsApi):
    """`CollaborationsApi` on a store in this process. Without a team, starting a collaboration
    raises `UserError`."""

    def __init__(self, context: LocalContext) -> None:
        super().__init__(context)
        self._collaborations = Collaborations(
            Bus(context.store, settings=BusSettings.within(context.settings.bus))
        )

    def list(
        self, *, agent: str | None = None, phase: Sequence[Phase] = ()
    ) -> Pages[api.CollaborationDetails]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.CollaborationDetails]:
            found = await self._collaborations.list(
                agent=agent, phases=phase or None, after=cursor or "", limit=limit + 1
            )
            more = found[limit - 1].id if len(found) > limit else None
            return Page(items=[_details(each) for each in found[:limit]], next_cursor=more)

        return Pages(fetch)

    async def get(self, collaboration_id: str) -> api.CollaborationDetails:
        return _details(await self._collaborations.get(collaboration_id))

    async def request(
        self,
        agent: str,
        target: str,
        task: str,
        *,
        requirements: Any = None,
        context: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> api.CollaborationDetails:
        begun = await self._initiator(agent).request_handoff(
            target, task, requirements, context=context, deadline_s=deadline_s, key=key
        )
        return _details(begun)

    async def propose(
        self,
        agent: str,
        target: str,
        terms: Any,
        *,
        max_rounds: int | None = None,
        context: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> api.CollaborationDetails:
        begun = await self._initiator(agent).propose(
            target, terms, context=context, deadline_s=deadline_s, max_rounds=max_rounds, key=key
        )
        return _details(begun)

    async def call(
        self,
        agent: str,
        capabilities: Sequence[str],
        *,
        task: str = "",
        requirements: Any = None,
        participants: Sequence[str] | None = None,
        context: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> api.CollaborationDetails:
        party = self._initiator(agent)
        others = [
            name for name in sorted(self._context.needed_project().agents) if name != party.name
        ]
        begun = await party.call(
            capabilities,
            task=task,
            participants=participants or others,
            requirements=requirements,
            context=context,
            deadline_s=deadline_s,
            key=key,
        )
        return _details(begun)

    async def acknowledge(
        self, collaboration_id: str, agent: str, *, key: str | None = None
    ) -> api.CollaborationDetails:
        return _details(
            await self._collaborations.as_agent(agent).acknowledge(collaboration_id, key=key)
        )

    async def accept(
        self, collaboration_id: str, agent: str, version: int, *, key: str | None = None
    ) -> api.CollaborationDetails:
        party = self._collaborations.as_agent(agent)
        return _details(await party.accept(collaboration_id, version, key=key))

    async def reject(
        self, collaboration_id: str, agent: str, *, reason: str = "", key: str | None = None
    ) -> api.CollaborationDetails:
        party = self._collaborations.as_agent(agent)
        return _details(await party.reject(collaboration_id, reason=reason, key=key))

    async def decline(
        self, collaboration_id: str, agent: str, *, reason: str = "", key: str | None = None
    ) -> api.CollaborationDetails:
        party = self._collaborations.as_agent(agent)
        return _details(await party.decline(collaboration_id, reason=reason, key=key))

    async def cancel(
        self, collaboration_id: str, agent: str, *, reason: str = "", key: str | None = None
    ) -> api.CollaborationDetails:
        party = self._collaborations.as_agent(agent)
        return _details(await party.cancel(collaboration_id, reason=reason, key=key))

    async def counter(
        self,
        collaboration_id: str,
        agent: str,
        terms: Any,
        *,
        version: int | None = None,
        reason: str = "",
        key: str | None = None,
    ) -> api.CollaborationDetails:
        moved = await self._collaborations.as_agent(agent).counter(
            collaboration_id, terms, answers=version, reason=reason, key=key
        )
        return _details(moved)

    async def bid(
        self,
        collaboration_id: str,
        agent: str,
        score: float,
        *,
        offer: Any = None,
        key: str | None = None,
    ) -> api.CollaborationDetails:
        party = self._collaborations.as_agent(agent)
        return _details(await party.bid(collaboration_id, score, offer=offer, key=key))

    async def award(
        self, collaboration_id: str, agent: str, bidder: str, *, key: str | None = None
    ) -> api.CollaborationDetails:
        return _details(
            await self._collaborations.as_agent(agent).award(collaboration_id, bidder, key=key)
        )

    async def select(
        self, collaboration_id: str, agent: str, bidder: str, *, key: str | None = None
    ) -> api.CollaborationDetails:
        return _details(
            await self._collaborations.as_agent(agent).select(collaboration_id, bidder, key=key)
        )

    def _initiator(self, name: str) -> Party:
        """The interface for moves of this agent of the team; `UnknownAgent` for any other."""
        return self._collaborations.as_agent(self._context.needed_project().team[name].name)


def _details(found: Collaboration) -> api.CollaborationDetails:
    details: api.CollaborationDetails = from_json(api.CollaborationDetails, found.to_json())
    return details
