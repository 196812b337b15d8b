"""Plans in a store, and previews of plans of the local team."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ekiden.api import plans as api
from ekiden.api.local.context import LocalContext, moment_of
from ekiden.api.local.sessions import state_of
from ekiden.api.methods.values import Moment, Page, Pages
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.errors.server import NotServed, RequestInvalid
from ekiden.core.events import Event
from ekiden.core.plan import AgentResult, AgentTask, MultiAgentState
from ekiden.core.values import dumps
from ekiden.project.plan_preview import PlanPreview, plan_request
from ekiden.project.routing import AUTO, parse_address
from ekiden.runtime.plan_steps import plan_state
from ekiden.storage.base import EventFilter, Store

_PAGE: Final = 100
_CURSOR: Final = re.compile(r"([0-9]{1,4})~([0-9.\-]{0,80})", re.ASCII)


class LocalPlans(api.PlansApi):
    """`PlansApi` on a store in this process. Without a team, `preview` raises `UserError`."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context

    async def preview(self, text: str, *, agent: str | None = None) -> PlanPreview:
        project = self._context.needed_project()
        address = parse_address(text)
        if not address.text.strip():
            raise RequestInvalid("text: it is empty")
        named = None if address.to == AUTO else address.to
        return await plan_request(
            project, address.text, agent=agent or named, model=self._context.model
        )

    async def get(self, session_id: str) -> api.Plan:
        store = self._context.store
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
            async for place, plan in _plans(self._context.store, where, start):
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
