"""What agents agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.client.modes import M, Resource, answers, given, lists
from ekiden.client.paths import part
from ekiden.client.streams import Listing


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
