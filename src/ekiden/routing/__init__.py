"""Routing: choosing the agent for a request."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.routing.decision import (
        RouteDecision as RouteDecision,
        Score as Score,
        Stage as Stage,
        StageResult as StageResult,
        Strategy as Strategy,
    )
    from ekiden.routing.llm import LlmStage as LlmStage
    from ekiden.routing.router import Router as Router
    from ekiden.routing.rules import RuleStage as RuleStage
    from ekiden.routing.settings import (
        Fallback as Fallback,
        LlmSettings as LlmSettings,
        RoutingSettings as RoutingSettings,
        RuleSettings as RuleSettings,
        SemanticSettings as SemanticSettings,
        StickySettings as StickySettings,
    )

__getattr__ = lazy_names(__name__)
