"""How routing is to be done: `agents.routing` of the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ekiden.routing.decision import Strategy

Fallback: TypeAlias = Literal["none", "prompt_user", "default_agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """Of the `rule` stage."""

    confidence_threshold: int = 80
    """At or above it, rules decide in `hybrid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticSettings:
    """Of the `semantic` stage."""

    threshold: float | None = None
    """How probable a choice must be, 0 to 1; `None` takes the value that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """Of the `llm` stage."""

    model: str | None = None
    """`None` takes the team's."""
    timeout: int = 5000
    """Milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StickySettings:
    """When the agent that has a conversation may lose it without being asked to."""

    switch: bool = False
    """Whether a message that is clearly another agent's goes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSettings:
    """Everything that can be set about routing.

    For example::

        Router(agents, settings=RoutingSettings(strategy="rule", fallback="none"))
    """

    enabled: bool = True
    """If not, a new conversation goes to the team's entry agent."""
    strategy: Strategy = "hybrid"
    rule: RuleSettings = field(default_factory=RuleSettings)
    semantic: SemanticSettings = field(default_factory=SemanticSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    sticky: StickySettings = field(default_factory=StickySettings)
    fallback: Fallback = "prompt_user"
    default_agent: str | None = None
