"""Plans: splitting a request among agents, ordering the tasks, and combining the results."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.supervisor.aggregate import JoinAggregator, ModelAggregator
    from ekiden.supervisor.defaults import aggregator_of, decomposer_of, uncombined_results
    from ekiden.supervisor.members import member_of, members_of
    from ekiden.supervisor.model_decomposer import ModelDecomposer
    from ekiden.supervisor.rule_decomposer import RuleDecomposer
    from ekiden.supervisor.schedule import Schedule, next_tasks, retry_delay_s, state_of, task_text

__all__ = [
    "JoinAggregator",
    "ModelAggregator",
    "ModelDecomposer",
    "RuleDecomposer",
    "Schedule",
    "aggregator_of",
    "decomposer_of",
    "member_of",
    "members_of",
    "next_tasks",
    "retry_delay_s",
    "state_of",
    "task_text",
    "uncombined_results",
]

__getattr__ = lazy_names(
    __name__,
    {
        "JoinAggregator": "ekiden.supervisor.aggregate",
        "ModelAggregator": "ekiden.supervisor.aggregate",
        "aggregator_of": "ekiden.supervisor.defaults",
        "decomposer_of": "ekiden.supervisor.defaults",
        "member_of": "ekiden.supervisor.members",
        "members_of": "ekiden.supervisor.members",
        "ModelDecomposer": "ekiden.supervisor.model_decomposer",
        "RuleDecomposer": "ekiden.supervisor.rule_decomposer",
        "Schedule": "ekiden.supervisor.schedule",
        "next_tasks": "ekiden.supervisor.schedule",
        "retry_delay_s": "ekiden.supervisor.schedule",
        "uncombined_results": "ekiden.supervisor.defaults",
        "state_of": "ekiden.supervisor.schedule",
        "task_text": "ekiden.supervisor.schedule",
    },
)
