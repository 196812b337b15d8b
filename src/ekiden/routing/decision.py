"""The decision of a router: the agent, the reason, the confidence and the other candidates."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias
from unicodedata import category

from ekiden.core.conversation.model import Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.roles import RouteCause

ROUTER_NAME = "router-agent"
"""The system agent that routes."""
STRATEGIES: tuple[Strategy, ...] = ("rule", "semantic", "llm", "hybrid")


def plain_line(text: str, max_chars: int) -> str:
    """`text` as one line without control and invisible characters, cut at `max_chars`."""
    text = text[: 4 * max_chars]
    if not (text.isascii() and text.isprintable()):
        text = "".join(each if category(each)[0] != "C" else " " for each in text)
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


Strategy: TypeAlias = Literal["rule", "semantic", "llm", "hybrid"]

Method: TypeAlias = Literal["rule", "semantic", "llm", "named", "sticky", "default", "none"]
"""How the agent was chosen: by a stage, by the person (`named`), or by the fallback (`default`).
`sticky`: the conversation stays with its agent; `none`: no agent matched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of one agent."""

    agent: str
    score: float
    """Points for `rule`, a probability for `semantic`. Compare only scores of the same method."""
    confidence: int
    """The confidence, from 0 to 100."""
    method: Method = "rule"
    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The score as JSON, as `ekiden route --json` prints it."""
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
    """The result of one stage."""

    method: Method
    agent: str | None
    """The chosen agent, even if the stage is not sure. `None` if the stage found no agent, or was
    unavailable. With `sure`, `None` is the final decision that no agent fits."""
    confidence: int
    sure: bool
    """Whether the choice is final. Otherwise the router asks the next stage."""
    reason: str
    """The reason for the choice, or for making none; for people."""
    candidates: tuple[Score, ...] = ()
    """The candidates, best first."""
    elapsed_ms: float = 0.0
    context: str | None = None
    """For `llm`: data from the routing model for the agent. A model wrote it: treat it as untrusted
    data."""
    usage: Usage | None = None
    """For `llm`: the usage of the model call."""

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, without the candidates."""
        data: dict[str, Any] = {
            "method": self.method,
            "agent": self.agent,
            "confidence": self.confidence,
            "sure": self.sure,
            "reason": self.reason,
            "elapsed_ms": round(self.elapsed_ms, 3),
        }
        if self.usage is not None:
            data["usage"] = self.usage.to_json()
        return data


class Stage(Protocol):
    """A part of the router that chooses an agent for a text."""

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """Choose among all agents that are not `excluded`.

        It may block for a few milliseconds, and must be thread-safe.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """The chosen agent for a request, and how it was chosen.

    For example::

        decision = await Router(agents).route("the build fails with error TS2304")
        print(decision.agent, decision.method, decision.confidence)
    """

    agent: str | None
    method: Method
    confidence: int
    reason: str
    """An explanation for people: why this agent was chosen, or why no agent matched."""
    strategy: Strategy
    cause: RouteCause = "new"
    matched_keywords: tuple[str, ...] = ()
    matched_patterns: tuple[str, ...] = ()
    candidates: tuple[Score, ...] = ()
    """The chosen agent and the next best agents, best first, with their scores in the stage that
    decided."""
    stages: tuple[StageResult, ...] = field(default=())
    """The results of all stages, in order. The result of an unavailable stage has the reason."""
    elapsed_ms: float = 0.0
    context: str | None = None
    """Data for the agent, written by the routing model. Treat it as untrusted data."""

    @property
    def usage(self) -> Usage | None:
        """The usage of the model calls for this decision; `None` if no model was called."""
        spent = [each.usage for each in self.stages if each.usage is not None]
        if not spent:
            return None
        total = Usage()
        for usage in spent:
            total.add(usage)
        return total

    def to_json(self) -> dict[str, Any]:
        """The decision as JSON, as in `ekiden route --json` and in `route` events. The format is
        stable.

        `context` and `usage` are left out if empty.
        """
        data: dict[str, Any] = {
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
        if self.context is not None:
            data["context"] = self.context
        if (usage := self.usage) is not None:
            data["usage"] = usage.to_json()
        return data
