"""What an agent bids for a call, from the capabilities it declares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ekiden.collaboration.protocol.record import Collaboration

if TYPE_CHECKING:
    from ekiden.capabilities import CapabilityMatcher
    from ekiden.core.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An offer: how well an agent can do the work, and its terms."""

    score: float
    """0 to 1."""
    offer: Any = None
    """JSON."""


BidFunction: TypeAlias = Callable[[Collaboration], Awaitable[Offer | None]]
"""Given a call, the agent's offer; `None`: it declines. ``call.terms.body`` has ``required``,
``task`` and ``requirements``."""


def capability_bid(agent: Agent[Any], *, min_score: float = 0.5) -> BidFunction:
    """Bids with the score of the agent's own capabilities, if that is at least `min_score`."""
    from ekiden.capabilities import CapabilityMatcher

    matcher = CapabilityMatcher()
    matcher.register(agent.name, agent.capabilities)
    return matcher_bid(matcher, agent.name, min_score=min_score)


def matcher_bid(matcher: CapabilityMatcher, agent: str, *, min_score: float = 0.5) -> BidFunction:
    """Bids with the matcher's current score of the agent; no bid while it is busy."""

    async def bid(call: Collaboration) -> Offer | None:
        terms = call.terms
        assert terms is not None
        required = terms.body.get("required", [])
        await matcher.prepare(required)
        for match in matcher.find(required, min_score=min_score, available_only=True):
            if match.agent == agent:
                return Offer(score=match.score, offer={"missing": list(match.missing)})
        return None

    return bid
