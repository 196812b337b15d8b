"""What agents say to each other: messages, and collaborations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.client.modes import M, Resource, answers, given, lists
from ekiden.client.paths import part
from ekiden.client.streams import Listing


class Messages(Resource[M]):
    """Messages between agents."""

    @lists
    def list(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        waiter: str | None = None,
        session: str | None = None,
    ) -> Listing[Mapping[str, Any]]:
        """Those to an agent, those in a state, those that somebody or some session waits for."""
        params = given(agent=agent, state=state, waiter=waiter, session=session)
        return Listing(path="/messages", params=params, parse=dict)

    @answers
    async def get(self, message_id: str) -> Mapping[str, Any]:
        """One message."""
        found: Mapping[str, Any] = await self._wire.ask("GET", f"/messages/{part(message_id)}")
        return found


class Collaborations(Resource[M]):
    """What agents agreed on, or did not."""

    @lists
    def list(
        self, *, agent: str | None = None, phase: Sequence[str] | None = None
    ) -> Listing[Mapping[str, Any]]:
        """Those in which an agent takes part, those in certain phases."""
        params = given(agent=agent, phase=None if phase is None else tuple(phase))
        return Listing(path="/collaborations", params=params, parse=dict)

    @answers
    async def get(self, collaboration_id: str) -> Mapping[str, Any]:
        """One, with all that was said; `CollaborationNotFound`."""
        path = f"/collaborations/{part(collaboration_id)}"
        found: Mapping[str, Any] = await self._wire.ask("GET", path)
        return found
