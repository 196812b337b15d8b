"""`Supervisor`: an agent that splits a request into tasks for other agents."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.checks.fields import checked_arguments
from ekiden.core.context import TContext
from ekiden.core.conversation.model import Model
from ekiden.core.errors import UserError
from ekiden.core.plan import (
    AggregateFunction,
    Aggregator,
    DecomposeFunction,
    Decomposer,
    MultiAgentState,
    PlanFailed,
    PlanSettings,
)
from ekiden.core.profile import Budget
from ekiden.runtime.config import RunConfig
from ekiden.runtime.plan_steps import plan_state
from ekiden.runtime.runner import Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore


class Supervisor(Agent[TContext]):
    """An agent that splits a request into tasks for other agents, and combines their results.

    Like any other agent, a supervisor can get handoffs, requests and queries. With a model, the
    model splits the request and summarises the results. Without a model, the request is split by
    the `triggers` of the agents::

        desk = Supervisor("desk", agents=[weather, finance, travel, general])
        state = await desk.run("Is it warm in Kyoto, and what are 100 euros in yen?")
        print(state.final_response)

    `decomposer` and `aggregator` may also be functions, sync or async::

        def each_line(text, members, fallback):
            return [AgentTask(agent=fallback, description=line) for line in text.splitlines()]

        Supervisor("desk", agents=[weather, general], decomposer=each_line)

    `PlanSettings` describes the settings of the plan, such as `retries`. `task_budget` sets the
    field `PlanSettings.budget`, and `options` are fields of `Agent`.
    """

    @checked_arguments
    def __init__(
        self,
        name: str,
        *,
        agents: Sequence[Agent[Any]],
        fallback: str | None = None,
        model: str | Model | None = None,
        decomposer: Decomposer | DecomposeFunction | None = None,
        aggregator: Aggregator | AggregateFunction | None = None,
        concurrency: int = 8,
        timeout_s: float = 60.0,
        retries: int = 1,
        backoff_s: float = 0.5,
        task_budget: Budget | None = None,
        max_tasks: int = 20,
        **options: Any,
    ) -> None:
        plan = PlanSettings(
            members=_members(name, agents),
            fallback=fallback,
            decomposer=decomposer,
            aggregator=aggregator,
            concurrency=concurrency,
            timeout_s=timeout_s,
            retries=retries,
            backoff_s=backoff_s,
            budget=task_budget,
            max_tasks=max_tasks,
        )
        super().__init__(name, model=model, plan=plan, **options)

    def __post_init__(self) -> None:
        # `Agent.run` is the code of an agent. A supervisor has a method of this name instead, so
        # the field is hidden while the base class checks its fields.
        self.__dict__["run"] = None
        super().__post_init__()
        del self.__dict__["run"]

    async def run(
        self,
        text: str,
        *,
        session: Session | None = None,
        context: Any = None,
        run_config: RunConfig | None = None,
    ) -> MultiAgentState:
        """Split `text` into a plan of tasks, run the tasks, and return the final state of the plan.

        If there is no answer, the field `error` of the state has the reason. If a task waits for
        people, the field `phase` is ``executing``. Without `session`, the plan is kept only in
        memory.
        """
        if session is None:
            session = Session(store=MemoryStore())
        # The returned state describes this failure.
        with suppress(PlanFailed):
            await Runner.run(self, text, session=session, context=context, run_config=run_config)
        return await plan_state(session.store, session.session_id)

    def clone(self, **changes: Any) -> Supervisor[TContext]:
        """Return a copy with some fields changed. A list that you do not pass is shared by the copy
        and the original."""
        other = copy(self)
        for name, value in changes.items():
            if name == "run" or not hasattr(self, name):
                raise UserError(f"a supervisor has no field {name!r}")
            setattr(other, name, value)
        other.__post_init__()
        return other


def _members(name: str, agents: Sequence[Agent[Any]]) -> tuple[Agent[Any], ...]:
    for agent in agents:
        if not isinstance(agent, Agent):
            raise UserError(
                f"`agents` of supervisor {name!r} has {agent!r:.80}: give Agent objects"
            )
    return tuple(agents)
