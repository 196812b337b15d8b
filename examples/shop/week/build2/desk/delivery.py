"""A tool that the second build adds."""

from __future__ import annotations

from ekiden import function_tool


@function_tool
def estimate_delivery(order_id: str) -> int:
    """Estimate in how many days an order arrives."""
    return 2 + int(order_id) % 5
