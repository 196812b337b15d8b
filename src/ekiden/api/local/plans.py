"""Plans in a store, and previews of plans of the local team."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ekiden.api import plans as api
from ekiden.api.local.context import LocalPart, moment_of
from ekiden.api.local.sessions import state_of
from ekiden.api.methods.values import Moment, Page, Pages
from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Model, ModelRequest, ModelResponse
from ekiden.core.errors import ModelBehaviorError, ModelTimeout, SessionNotFound, UserError
from ekiden.core.errors.server import NotServed, RequestInvalid
from ekiden.core.events import Event
from ekiden.core.plan import (
    AgentResult,
    AgentTask,
    AskModel,
    MultiAgentState,
    PlanSettings,
    TaskDecomposition,
)
from ekiden.core.values import dumps
from ekiden.models.demo import is_demo
from ekiden.project.project import Project
from ekiden.project.routing import AUTO, parse_address
from ekiden.runtime.plan_steps import plan_state
from ekiden.storage.base import EventFilter, Store
from ekiden.supervisor import decomposer_of, members_of

_PAGE: Final = 100
_CURSOR: Final = re.compile(r"([0-9]{1,4})~([0-9.\-]{0,80})", re.ASCII)


class LocalPlans(LocalPart, api.PlansApi):
    """`PlansApi` on a store in this process. Without a team, `preview` raises `UserError`."""

    async def preview(self, text: str, *, agent: str | None = None) -> api.PlanPreview:
        project = self._context.needed_project()
        address = parse_address(text)
        if not address.text.strip():
            raise RequestInvalid("text: it is empty")
        named = None if address.to == AUTO else address.to
        return await plan_request(
            project, address.text, agent=agent or named, model=self._context.model
        )

    async def get(self, session_id: str) -> api.Plan:
        store = self._store
        try:
            state = await plan_state(store, session_id)
        except UserError as exc:
            raise NotServed(str(exc)) from exc
        plan = state.decomposition
        total = 0 if plan is None else len(plan.tasks)
        done = sum(result.success for result in state.results)
        return api.Plan(
            session_id=state.session_id,
            user_input=state.user_input,
            phase=state.phase,
            decomposition=None
            if plan is None
            else api.Decomposition(
                tasks=plan.tasks,
                reasoning=plan.reasoning,
                requires_aggregation=plan.requires_aggregation,
                notes=plan.notes,
            ),
            pending_tasks=state.pending_tasks,
            results=state.results,
            final_response=state.final_response,
            error=state.error,
            progress=api.PlanProgress(
                tasks=total,
                done=done,
                failed=len(state.results) - done,
                open=max(total - len(state.results), 0),
            ),
            tasks=await _outcomes(store, state),
        )

    def tasks(
        self,
        *,
        session_id: str | None = None,
        agent: str | None = None,
        status: api.TaskStatus | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Pages[api.PlanTask]:
        first, last = moment_of(since, what="since"), moment_of(until, what="until")
        where = EventFilter(
            types={"task"},
            session_id=session_id,
            since_us=None if first is None else int(first.timestamp() * 1e6),
            until_us=None if last is None else int(last.timestamp() * 1e6),
        )

        async def fetch(limit: int, cursor: str | None) -> Page[api.PlanTask]:
            # Stores have no index of plans: without a session, all events are scanned until the
            # page is full. A cursor is the number of shown tasks in a plan, and the plan's place.
            start, skip = _parsed(cursor)
            found: list[api.PlanTask] = []
            next_cursor = ""
            async for place, plan in _plans(self._store, where, start):
                for number, task in enumerate(plan):
                    was_shown = place == (start or "") and number < skip
                    if was_shown or agent not in (None, task.agent):
                        continue
                    if status not in (None, task.status):
                        continue
                    if len(found) == limit:
                        return Page(items=found, next_cursor=next_cursor)
                    found.append(task)
                    next_cursor = f"{number + 1}~{place}"
            return Page(items=found)

        return Pages(fetch)


async def _outcomes(store: Store, state: MultiAgentState) -> list[api.TaskOutcome]:
    """The tasks in the plan's order, with their results."""
    if state.decomposition is None:
        return []
    recorded: dict[str, api.PlanTask] = {}
    where = EventFilter(types={"task"}, session_id=state.session_id)
    async for _, plan in _plans(store, where, None):
        recorded = {task.task_id: task for task in plan}
        break
    results = {each.task_id: each for each in state.results}
    return [
        _outcome(task, recorded.get(task.task_id), results.get(task.task_id))
        for task in state.decomposition.tasks
    ]


def _outcome(
    task: AgentTask, recorded: api.PlanTask | None, result: AgentResult | None
) -> api.TaskOutcome:
    return api.TaskOutcome(
        task_id=task.task_id,
        agent=task.agent,
        description=task.description,
        depends_on=task.depends_on,
        # The events of the plan may be missing; then the result has the status.
        status=_status_of(result) if recorded is None else recorded.status,
        attempts=0 if recorded is None else recorded.attempts,
        started_at=None if recorded is None else recorded.started_at,
        ended_at=None if recorded is None else recorded.ended_at,
        error=result.error if result else recorded.error if recorded else None,
        sessions=() if recorded is None else recorded.sessions,
        result=None if result is None or not result.success else _as_text(result.data),
    )


def _status_of(result: AgentResult | None) -> api.TaskStatus:
    if result is None:
        return "pending"
    return "done" if result.success else "failed"


def _as_text(data: Any) -> str:
    return data if isinstance(data, str) else dumps(data)


def _parsed(cursor: str | None) -> tuple[str | None, int]:
    """The cursor of the event before the plan, and how many of its tasks were shown."""
    if cursor is None:
        return None, 0
    parts = _CURSOR.fullmatch(cursor)
    if parts is None:
        raise UserError(
            f"{cursor[:40]!r} is not a cursor of tasks: pass the `next_cursor` of a page"
        )
    return parts[2] or None, int(parts[1])


async def _plans(
    store: Store, where: EventFilter, cursor: str | None
) -> AsyncIterator[tuple[str, list[api.PlanTask]]]:
    """The tasks of plans, each with the cursor of a page of events that begins with its plan."""
    while True:
        page = await store.find_events(where, limit=_PAGE, cursor=cursor)
        place = cursor or ""
        for event, next_place in zip(page.events, page.cursors, strict=True):
            if _phase(event) == "decomposed":
                yield place, await _tasks(store, event)
            place = next_place
        cursor = page.next_cursor
        if cursor is None:
            return


async def _tasks(store: Store, plan: Event) -> list[api.PlanTask]:
    try:
        row = await store.get(plan.session_id)
    except SessionNotFound:
        return []
    events = await store.events(plan.session_id, after=plan.seq)
    tasks = {str(each.get("task_id")): _Task(each) for each in (plan.details or {})["tasks"]}
    is_last_plan = True
    started: _Task | None = None
    for event in events:
        if event.type != "task":
            if started is not None:
                started.add_question(event)
            started = None
            continue
        if _phase(event) == "decomposed":
            is_last_plan = False
            break
        started = tasks.get(str((event.details or {}).get("task_id")))
        if started is not None:
            started.add(event)
    is_active = is_last_plan and state_of(row) not in ("idle", "failed")
    return [each.as_plan_task(plan, is_active=is_active) for each in tasks.values()]


@dataclass(slots=True)
class _Task:
    """A task of a plan, whose state is collected from events."""

    planned: Mapping[str, Any]
    status: api.TaskStatus = "pending"
    attempts: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    sessions: list[str] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Add an event of the task."""
        details = event.details or {}
        if details.get("phase") == "started":
            self.status, self.error, self.ended_at = "running", None, None
            self.attempts += 1
            self.started_at = self.started_at or event.at_us / 1e6
        elif details.get("phase") == "finished":
            self.status = "done" if details.get("success") else "failed"
            self.error, self.ended_at = event.error, event.at_us / 1e6

    def add_question(self, event: Event) -> None:
        """Add the event after the start: the query to the agent, which has its own session."""
        asked = (event.details or {}).get("asks")
        session = asked.get("session") if isinstance(asked, Mapping) else None
        if self.status == "running" and isinstance(session, str):
            self.sessions.append(session)

    def as_plan_task(self, plan: Event, *, is_active: bool) -> api.PlanTask:
        """The task for callers."""
        is_open = self.status in ("pending", "running")
        return api.PlanTask(
            session_id=plan.session_id,
            supervisor=plan.agent,
            plan=plan.seq,
            planned_at=plan.at_us / 1e6,
            task_id=str(self.planned.get("task_id")),
            agent=str(self.planned.get("agent")),
            description=self.planned.get("description"),
            depends_on=tuple(self.planned.get("depends_on", ())),
            status="stopped" if is_open and not is_active else self.status,
            attempts=self.attempts,
            started_at=self.started_at,
            ended_at=self.ended_at,
            error=self.error,
            sessions=tuple(self.sessions),
        )


def _phase(event: Event) -> str | None:
    phase = (event.details or {}).get("phase")
    return phase if isinstance(phase, str) else None


# Previews: how a request would be split among a project's agents, without running anything.

_TIMEOUT_S = 120.0


async def plan_request(
    project: Project, text: str, *, agent: str | None = None, model: str | None = None
) -> api.PlanPreview:
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
        raise UserError(f"the decomposer returned {type(plan).__name__}, not a TaskDecomposition")
    method: api.PlanMethod = "own" if settings.decomposer is not None else "rules"
    return api.PlanPreview(
        reasoning=plan.reasoning,
        requires_aggregation=plan.requires_aggregation,
        method="model" if uses_model else method,
        tasks=[_planned(task) for task in plan.tasks],
        notes=plan.notes,
        supervisor=name,
        model=shown if uses_model else None,
    )


def _planned(task: AgentTask) -> api.PlannedTask:
    return api.PlannedTask(
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
