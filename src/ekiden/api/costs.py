"""Costs: the tokens and money of model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from ekiden.api.called import Called, calls
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.values import SESSION_ID, Moment
from ekiden.core.documents import Value, left_out
from ekiden.sessions.costs import CostKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEntry(Value):
    """The usage of some calls; `agent`, `model`, `session` and `day` are set if all calls share
    them."""

    agent: str | None = left_out()
    model: str | None = left_out()
    session: str | None = left_out()
    day: str | None = left_out()
    """In UTC."""
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    tokens: int
    cost: float | None
    """In US dollars; `null` if the price is unknown."""
    unpriced_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary(Value):
    """The tokens and cost of model calls."""

    by: Sequence[CostKey]
    lines: Sequence[CostEntry]
    """Most expensive first."""
    total: CostEntry
    unpriced_models: Sequence[str]
    """Models with an unknown price."""


class Costs(Protocol):
    """The tokens and cost of model calls."""

    @endpoint("GET", "/costs", scope="read", problems=(404,))
    async def get(
        self,
        *,
        session: Annotated[
            str | None,
            Told(
                "A session with all that answered it; by default all sessions.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
            ),
        ] = None,
        since: Annotated[Moment | None, Told("Only calls since this time.")] = None,
        by: Annotated[
            Sequence[CostKey],
            Told(
                "Group by these, each once; by default by agent and model.",
                max_length=4,
                is_unique=True,
            ),
        ] = (),
    ) -> CostSummary:
        """Get the tokens and cost of model calls, with the prices of the settings or of the price
        list."""
        ...


class CalledCosts(Called):
    """`Costs` for synchronous code."""

    get = calls(Costs.get)
