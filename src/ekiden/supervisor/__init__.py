"""Plans: splitting a request among agents, ordering the tasks, and combining the results."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.supervisor.aggregate import (
        JoinAggregator as JoinAggregator,
        ModelAggregator as ModelAggregator,
    )
    from ekiden.supervisor.model_decomposer import (
        ModelDecomposer as ModelDecomposer,
        aggregator_of as aggregator_of,
        decomposer_of as decomposer_of,
        uncombined_results as uncombined_results,
    )
    from ekiden.supervisor.rule_decomposer import (
        RuleDecomposer as RuleDecomposer,
        member_of as member_of,
        members_of as members_of,
    )
    from ekiden.supervisor.schedule import (
        Schedule as Schedule,
        next_tasks as next_tasks,
        retry_delay_s as retry_delay_s,
        state_of as state_of,
        task_text as task_text,
    )

__getattr__ = lazy_names(__name__)
