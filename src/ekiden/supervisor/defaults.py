"""Who splits requests and puts results together where a supervisor says nothing else."""

from __future__ import annotations

from ekiden.core.plan import Aggregator, Decomposer, MultiAgentState, PlanSettings
from ekiden.supervisor.aggregate import JoinAggregator, ModelAggregator, joined
from ekiden.supervisor.model_decomposer import ModelDecomposer
from ekiden.supervisor.rule_decomposer import RuleDecomposer


def decomposer_of(settings: PlanSettings, has_model: bool) -> Decomposer:
    """The supervisor's own; else the model where there is one, else rules."""
    if settings.decomposer is not None:
        return settings.decomposer
    if has_model:
        return ModelDecomposer(max_tasks=settings.max_tasks)
    return RuleDecomposer(max_tasks=settings.max_tasks)


def aggregator_of(settings: PlanSettings, has_model: bool) -> Aggregator:
    """The supervisor's own; else the model where there is one, else side by side."""
    if settings.aggregator is not None:
        return settings.aggregator
    titles = _titles(settings)
    return ModelAggregator(titles=titles) if has_model else JoinAggregator(titles=titles)


def side_by_side(
    settings: PlanSettings, aggregator: Aggregator, state: MultiAgentState, *, problem: str
) -> str:
    """The results as they are, and why no other answer was made of them."""
    titles = aggregator.titles if isinstance(aggregator, ModelAggregator) else _titles(settings)
    return f"{joined(state, titles)}\n\n## Not summed up\n\n{problem}"


def _titles(settings: PlanSettings) -> dict[str, str]:
    return {agent.name: agent.title for agent in settings.members if agent.title}
