"""The decomposer and the aggregator of a supervisor: its own, or the default."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from ekiden.core.plan import (
    AgentTask,
    AggregateFunction,
    Aggregator,
    AskModel,
    DecomposeFunction,
    Decomposer,
    MultiAgentState,
    PlanSettings,
    TaskDecomposition,
    keywords_taken,
)
from ekiden.supervisor.aggregate import JoinAggregator, ModelAggregator, joined
from ekiden.supervisor.model_decomposer import ModelDecomposer
from ekiden.supervisor.rule_decomposer import RuleDecomposer


def decomposer_of(settings: PlanSettings, has_model: bool) -> Decomposer:
    """The decomposer in the settings. The default uses a model, or rules without a model."""
    own: Any = settings.decomposer
    if own is not None:
        return own if hasattr(own, "decompose") else _FunctionDecomposer(own)
    if has_model:
        return ModelDecomposer(max_tasks=settings.max_tasks)
    return RuleDecomposer(max_tasks=settings.max_tasks)


def aggregator_of(settings: PlanSettings, has_model: bool) -> Aggregator:
    """The aggregator in the settings. The default uses a model, or joins results without a
    model."""
    own: Any = settings.aggregator
    if own is not None:
        return own if hasattr(own, "aggregate") else _FunctionAggregator(own)
    titles = _titles(settings)
    return ModelAggregator(titles=titles) if has_model else JoinAggregator(titles=titles)


@dataclass(frozen=True, slots=True)
class _FunctionDecomposer:
    function: DecomposeFunction

    async def decompose(self, text: str, **options: Any) -> TaskDecomposition:
        taken = keywords_taken(self.function, list(options), "a decomposer")
        result: Any = self.function(text, **{name: options[name] for name in taken})
        result = await result if inspect.isawaitable(result) else result
        if isinstance(result, list | tuple) and all(isinstance(each, AgentTask) for each in result):
            return TaskDecomposition(tasks=tuple(result))
        plan: TaskDecomposition = result
        return plan


@dataclass(frozen=True, slots=True)
class _FunctionAggregator:
    function: AggregateFunction

    async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
        taken = keywords_taken(self.function, ["ask"], "an aggregator")
        result = self.function(state, **({"ask": ask} if taken else {}))
        answer: str = await result if inspect.isawaitable(result) else result
        return answer


def uncombined_results(
    settings: PlanSettings, aggregator: Aggregator, state: MultiAgentState, *, problem: str
) -> str:
    """The unchanged results, and the reason why they were not combined."""
    titles = aggregator.titles if isinstance(aggregator, ModelAggregator) else _titles(settings)
    return f"{joined(state, titles)}\n\n## Not summed up\n\n{problem}"


def _titles(settings: PlanSettings) -> dict[str, str]:
    return {agent.name: agent.title for agent in settings.members if agent.title}
