"""Routing over HTTP."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import SAID

StrategyName: TypeAlias = Literal["rule", "semantic", "llm", "hybrid"]
MethodName: TypeAlias = Literal["rule", "semantic", "llm", "named", "sticky", "default", "none"]


class NewRoute(BaseModel):
    """A request of which is asked who would get it."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(
        min_length=1,
        max_length=100_000,
        pattern=SAID,
        description="`@auto --strategy=NAME` and `@name` at the beginning are understood.",
        examples=["the build fails with error TS2304"],
    )
    strategy: StrategyName | None = Field(
        default=None, description="How to choose; else as the settings say."
    )


class MatchedModel(BaseModel):
    """Something that speaks for an agent."""

    kind: Literal["keyword", "pattern", "semantic"]
    text: str = Field(description="The keyword or pattern; empty for what it means as a whole.")
    points: float | None = Field(
        description="What it counts: points of the rules, or the probability by meaning."
    )


class ScoreModel(BaseModel):
    """How one agent did; one that nothing speaks for has 0 and the method `none`."""

    agent: str
    score: float
    confidence: int
    method: MethodName
    matched_keywords: list[str] = []
    matched_patterns: list[str] = []
    matches: list[MatchedModel]


class StageModel(BaseModel):
    """What one stage said."""

    method: MethodName
    agent: str | None
    confidence: int
    sure: bool
    reason: str
    elapsed_ms: float
    usage: dict[str, Any] | None = None


class RouteModel(BaseModel):
    """Which agent would take a request, and everything that led to it."""

    agent: str | None = Field(description="`null`: nothing matched.")
    method: MethodName
    confidence: int
    matched_keywords: list[str]
    matched_patterns: list[str]
    candidates: list[ScoreModel]
    reason: str
    elapsed_ms: float
    strategy: StrategyName
    cause: str
    stages: list[StageModel]
    context: str | None = None
    usage: dict[str, Any] | None = None
