"""What a router says: who, why, how sure, and what else it looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ekiden.core.roles import RouteCause

Strategy: TypeAlias = Literal["rule", "semantic", "llm", "hybrid"]
STRATEGIES: tuple[Strategy, ...] = ("rule", "semantic", "llm", "hybrid")

Method: TypeAlias = Literal["rule", "semantic", "llm", "named", "sticky", "default", "none"]
"""What decided: a stage, the person (`named`), nobody (`sticky`: it stays where it is), the
fallback (`default`); `none` when nothing matched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How one agent did."""

    agent: str
    score: float
    """`rule`: points; `semantic`: probability; comparable within one method only."""
    confidence: int
    """0 to 100."""
    method: Method = "rule"
    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `ekiden route --json` prints it."""
        data: dict[str, Any] = {
            "agent": self.agent,
            "score": self.score,
            "confidence": self.confidence,
            "method": self.method,
        }
        if self.keywords:
            data["matched_keywords"] = list(self.keywords)
        if self.patterns:
            data["matched_patterns"] = list(self.patterns)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """What one stage said."""

    method: Method
    agent: str | None
    """Its choice; also named when it is not sure."""
    confidence: int
    sure: bool
    """Whether the choice stands on its own, without asking further."""
    reason: str
    """For people: why this one, or why none."""
    candidates: tuple[Score, ...] = ()
    """Best first."""
    elapsed_ms: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Without the candidates."""
        return {
            "method": self.method,
            "agent": self.agent,
            "confidence": self.confidence,
            "sure": self.sure,
            "reason": self.reason,
            "elapsed_ms": round(self.elapsed_ms, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """Which agent takes a request, and everything that led to it.

    For example::

        decision = await Router(agents).route("the build fails with error TS2304")
        print(decision.agent, decision.method, decision.confidence)
    """

    agent: str | None
    method: Method
    confidence: int
    reason: str
    """For people: why this agent, or why nothing matched."""
    strategy: Strategy
    cause: RouteCause = "new"
    matched_keywords: tuple[str, ...] = ()
    matched_patterns: tuple[str, ...] = ()
    candidates: tuple[Score, ...] = ()
    """The chosen one and the runners-up, best first, as the deciding stage scored them."""
    stages: tuple[StageResult, ...] = field(default=())
    """What every stage that was asked said, in order."""
    elapsed_ms: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The stable form: `ekiden route --json`, and the details of `route` events."""
        return {
            "agent": self.agent,
            "method": self.method,
            "confidence": self.confidence,
            "matched_keywords": list(self.matched_keywords),
            "matched_patterns": list(self.matched_patterns),
            "candidates": [each.to_json() for each in self.candidates],
            "reason": self.reason,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "strategy": self.strategy,
            "cause": self.cause,
            "stages": [each.to_json() for each in self.stages],
        }
