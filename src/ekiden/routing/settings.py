"""The section `agents.routing` of the settings."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, TypeAlias

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.dataclass import dataclass
from ekiden.routing.decision import Strategy

Fallback: TypeAlias = Literal["none", "prompt_user", "default_agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings(Checked):
    """Settings that decide when a stage's choice is final."""

    confidence_threshold: Annotated[int, Allowed(high=100, env="EKIDEN_ROUTING_THRESHOLD")] = 80
    """The minimum confidence with which rules or meaning decide in the strategy `hybrid`. With less
    confidence, the next stage is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticSettings(Checked):
    """Settings of the `semantic` stage."""

    threshold: Annotated[float | None, Allowed(high=1)] = None
    """The minimum probability that the agent chosen by meaning is right. With null, a built-in
    threshold applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings(Checked):
    """Settings of the `llm` stage."""

    model: Annotated[
        str | None, Allowed(what="provider:model", risk="sends conversations to this address")
    ] = None
    """The routing model. With null, the team's model is used."""
    prompt: Annotated[str | None, Allowed(what="a text")] = None
    """The prompt of the routing model. With null, the built-in prompt is used."""
    timeout: Annotated[int, Allowed(low=1, high=600_000)] = 5000
    """The timeout of the routing model, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StickySettings(Checked):
    """Settings that decide when a later message moves the conversation to another agent."""

    switch: bool = False
    """Whether a session changes its agent if a message clearly fits another agent better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSettings(Checked):
    """The settings of routing.

    For example::

        Router(agents, settings=RoutingSettings(strategy="rule", fallback="none"))
    """

    enabled: bool = True
    """Whether requests are routed. If false, `@auto` is refused, and requests go to the default
    agent, if one is set."""
    strategy: Strategy = "hybrid"
    """The routing strategy."""
    rule: RuleSettings = field(default_factory=RuleSettings)
    semantic: SemanticSettings = field(default_factory=SemanticSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    sticky: StickySettings = field(default_factory=StickySettings)
    fallback: Fallback = "prompt_user"
    """What happens when no agent matches."""
    default_agent: Annotated[str | None, Allowed(what="an agent's name")] = None
    """The agent that gets requests that match no agent, if `agents.routing.fallback` is
    `default_agent`."""
