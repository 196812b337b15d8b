"""Shows how a request would be split among a project's agents, without running anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Model, ModelRequest, ModelResponse
from ekiden.core.documents import Value, left_out
from ekiden.core.errors import ModelBehaviorError, ModelTimeout, UserError
from ekiden.core.plan import AgentTask, AskModel, PlanSettings, TaskDecomposition
from ekiden.models.demo import is_demo
from ekiden.supervisor import decomposer_of, members_of

if TYPE_CHECKING:
    from ekiden.project.project import Project

PlanMethod: TypeAlias = Literal["model", "rules", "own"]
"""How a request is split: by a model, by the agents' keywords and patterns, or by the supervisor's
own code."""

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask(Value):
    """One part of a request, for one agent."""

    task_id: str
    agent: str
    description: str
    parameters: Mapping[str, Any]
    """Additional parameters for the agent, as JSON."""
    depends_on: Sequence[str]
    """The ids of the tasks whose results this task needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPreview(Value):
    """How a request would be split."""

    reasoning: str
    requires_aggregation: bool
    """Whether several results must be combined into an answer."""
    method: PlanMethod
    """How the request was split: by a model, by the agents' keywords and patterns, or by the
    supervisor's own code."""
    tasks: Sequence[PlannedTask]
    notes: Sequence[str]
    """Corrections that Ekiden made to the plan of the model or of the rules."""
    supervisor: str | None
    """The supervisor of the plan. `null` if the plan uses all agents that can get requests."""
    model: str | None = left_out()
    """The model that split the request."""


async def plan_request(
    project: Project, text: str, *, agent: str | None = None, model: str | None = None
) -> PlanPreview:
    """Split `text` into tasks. Nothing is stored, and no agent works on the tasks.

    The supervisor is `agent`. By default it is the only supervisor of the project, or a new
    supervisor with all agents that can get requests. The model is `model`. By default it is the
    model of the supervisor, or the model of the project. Without a model, and with the demo model,
    rules split the request.

    Raises `UnknownAgent`, `UserError` if the agent is not a supervisor or if the project has
    several supervisors, and the errors of the model.
    """
    name, settings, own_model = _supervisor(project, agent)
    chosen = model or own_model or project.settings.model
    if is_demo(chosen):
        chosen = None
    shown = chosen if isinstance(chosen, str | None) else type(chosen).__name__
    decomposer = decomposer_of(settings, has_model=chosen is not None)
    uses_model = chosen is not None and settings.decomposer is None
    if uses_model and project.tell is not None:
        project.tell(f"asking {shown} for a plan …")
    plan = await decomposer.decompose(
        text,
        members=members_of(settings.members),
        fallback=settings.fallback_name,
        ask=None if chosen is None else _model_call(chosen),
    )
    if not isinstance(plan, TaskDecomposition):
        raise UserError(f"the decomposer gave {type(plan).__name__}, not a TaskDecomposition")
    method: PlanMethod = "own" if settings.decomposer is not None else "rules"
    return PlanPreview(
        reasoning=plan.reasoning,
        requires_aggregation=plan.requires_aggregation,
        method="model" if uses_model else method,
        tasks=[_planned(task) for task in plan.tasks],
        notes=plan.notes,
        supervisor=name,
        model=shown if uses_model else None,
    )


def _planned(task: AgentTask) -> PlannedTask:
    return PlannedTask(
        task_id=task.task_id,
        agent=task.agent,
        description=task.description,
        parameters=task.parameters,
        depends_on=task.depends_on,
    )


def _supervisor(
    project: Project, wanted: str | None
) -> tuple[str | None, PlanSettings, str | Model | None]:
    agents = project.agents
    supervisors = {name: each for name, each in agents.items() if each.plan is not None}
    if wanted is not None:
        found = project.team[wanted]
        if found.plan is None:
            listed = ", ".join(sorted(supervisors)) or "there is none"
            raise UserError(f"agent {wanted!r} is not a supervisor; supervisors: {listed}")
        return wanted, found.plan, found.model
    if len(supervisors) > 1:
        raise UserError(
            f"the project has several supervisors: {', '.join(sorted(supervisors))}; name one "
            "with --agent"
        )
    for name, found in supervisors.items():
        assert found.plan is not None
        return name, found.plan, found.model
    return None, _ad_hoc(project, agents), None


def _ad_hoc(project: Project, agents: Mapping[str, Agent[Any]]) -> PlanSettings:
    """The settings of a supervisor of all agents that can get requests."""
    members = [
        agents[name]
        for name in sorted(agents)
        if agents[name].scope != "system" and not agents[name].traits.is_human
    ]
    if not members:
        raise UserError("the project has no agent that tasks can be given to")
    default = project.settings.agents.routing.default_agent
    names = {member.name for member in members}
    return PlanSettings(members=tuple(members), fallback=default if default in names else None)


def _model_call(wanted: str | Model) -> AskModel:
    from ekiden.models import resolve_model

    model: Model = resolve_model(wanted) if isinstance(wanted, str) else wanted

    async def ask(request: ModelRequest) -> ModelResponse:
        response: ModelResponse | None = None
        scope = asyncio.timeout(_TIMEOUT_S)
        try:
            async with scope:
                async for part in model.respond(request):
                    if isinstance(part, ModelResponse):
                        response = part
        except TimeoutError as exc:
            if not scope.expired():
                raise
            raise ModelTimeout("the model", _TIMEOUT_S) from exc
        if response is None:
            raise ModelBehaviorError("the model ended without an answer")
        return response

    return ask
