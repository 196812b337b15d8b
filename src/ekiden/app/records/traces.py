"""Traces as the doors show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ekiden.sessions.costs import cost_of_call
from ekiden.tracing import CostOf, Trace, for_export

if TYPE_CHECKING:
    from ekiden.core.usage import Usage
    from ekiden.models.pricing import PriceOf


def cost_function(prices: Mapping[str, PriceOf]) -> CostOf:
    """What tells the cost of model calls in a trace: `prices`, else the price list."""

    def cost(model: str, usage: Usage, at_us: int) -> float | None:
        return cost_of_call(model, usage, prices, at_us=at_us)

    return cost


def shown_trace(trace: Trace, *, include_content: bool = True) -> Trace:
    """The trace as people and programs on this side see it: keys and tokens are covered."""
    return replace(trace, spans=for_export(trace.spans, include_content=include_content))


def trace_record(trace: Trace, *, include_content: bool = True) -> dict[str, Any]:
    """A trace as JSON: `spans` is what ``ekiden trace --json`` prints."""
    return shown_trace(trace, include_content=include_content).to_json()
