"""Costs: what model calls used and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from ekiden.api.called import Called, calls
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.texts import SESSION_ID, Moment
from ekiden.core.values.documents import Value, left_out
from ekiden.sessions.costs import CostKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEntry(Value):
    """What some calls used; `agent`, `model`, `session` and `day` as far as they have them in
    common."""

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
    """In US dollars; `null` if the price is not known."""
    unpriced_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary(Value):
    """What model calls used and cost."""

    by: Sequence[CostKey]
    lines: Sequence[CostEntry]
    """The dearest first."""
    total: CostEntry
    unpriced_models: Sequence[str]
    """Models whose price is not known."""


class Costs(Protocol):
    """What model calls used and cost."""

    @endpoint("GET", "/costs", scope="read", problems=(404,))
    async def get(
        self,
        *,
        session: Annotated[
            str | None,
            Told(
                "A session: it and all that answered it; else all there are.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
            ),
        ] = None,
        since: Annotated[Moment | None, Told("Only calls since then.")] = None,
        by: Annotated[
            Sequence[CostKey],
            Told(
                "Put together by these, each once; else by agent and model.",
                max_length=4,
                is_unique=True,
            ),
        ] = (),
    ) -> CostSummary:
        """What model calls used and cost, with the prices of the settings or of the price list."""
        ...


class CalledCosts(Called):
    """`Costs`, called."""

    get = calls(Costs.get)
