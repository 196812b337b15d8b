"""Token usage of model calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Usage:
    """Token counts of one model call, or of all calls of a run."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    """In the currency of `RunConfig.prices`; 0 if no prices are known."""

    @property
    def tokens(self) -> int:
        """All tokens, even if a provider gives no total."""
        return max(self.total_tokens, self.input_tokens + self.output_tokens)

    def add(self, other: Usage) -> None:
        """Add `other`."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.total_tokens += other.total_tokens
        self.cached_tokens += other.cached_tokens
        self.reasoning_tokens += other.reasoning_tokens
        self.cost += other.cost

    def take(self, other: Usage) -> None:
        """Subtract `other`."""
        self.requests -= other.requests
        self.input_tokens -= other.input_tokens
        self.output_tokens -= other.output_tokens
        self.total_tokens -= other.total_tokens
        self.cached_tokens -= other.cached_tokens
        self.reasoning_tokens -= other.reasoning_tokens
        self.cost -= other.cost

    def to_json(self) -> dict[str, int | float]:
        """The counts that are not zero."""
        counts: dict[str, int | float] = {}
        if self.requests:
            counts["requests"] = self.requests
        if self.input_tokens:
            counts["input_tokens"] = self.input_tokens
        if self.output_tokens:
            counts["output_tokens"] = self.output_tokens
        if self.total_tokens:
            counts["total_tokens"] = self.total_tokens
        if self.cached_tokens:
            counts["cached_tokens"] = self.cached_tokens
        if self.reasoning_tokens:
            counts["reasoning_tokens"] = self.reasoning_tokens
        if self.cost:
            counts["cost"] = round(self.cost, 9)
        return counts

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """The inverse of `to_json`."""
        counts = {name: int(count) for name, count in data.items() if name != "cost"}
        return cls(**counts, cost=float(data.get("cost", 0.0)))
