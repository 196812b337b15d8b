"""Plans in a store, and plan previews of the local team."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ekiden.api import plans as api
from ekiden.api.local.place import Here, moment_of
from ekiden.api.methods.values import Moment, Page, Pages
from ekiden.api.sessions import state_of
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.errors.server import NotServed, RequestInvalid
from ekiden.core.events import Event
from ekiden.core.plan import AgentResult, AgentTask, MultiAgentState
from ekiden.core.values import dumps
from ekiden.project.plan_preview import PlanPreview, plan_request
from ekiden.project.routing import AUTO, parse_address
from ekiden.runtime.plans.status import plan_state
from ekiden.storage.base import EventFilter, Store

_PAGE: Final = 100
_CURSOR: Final = re.compile(r"([0-9]{1,4})~([0-9.\-]{0,80})", re.ASCII)


class LocalPlans(api.PlansApi):
    """See `Plans`; `preview` is a `UserError` without a team."""

    def __init__(self, here: Here) -> None:
        self._here = here

    async def preview(self, text: str, *, agent: str | None = None) -> PlanPreview:
        project = self._here.needed_project()
        address = parse_address(text)
        if not address.text.strip():
            raise RequestInvalid("text: it is empty")
        named = None if address.to == AUTO else address.to
        return await plan_request(
            project, address.text, agent=agent or named, model=self._here.model
        )

    async def get(self, session_id: str) -> api.Plan:
        store = self._here.store
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
            # Stores have no index of plans: without a session all events are looked at, down to
            # the last task that is shown.
            begin, skip = _parsed(cursor)
            found: list[api.PlanTask] = []
            place = ""
            async for before, plan in _plans(self._here.store, where, begin):
                for number, task in enumerate(plan):
                    is_past = before == (begin or "") and number < skip
                    if is_past or agent not in (None, task.agent):
                        continue
                    if status not in (None, task.status):
                        continue
                    if len(found) == limit:
                        return Page(items=found, next_cursor=place)
                    found.append(task)
                    place = f"{number + 1}~{before}"
            return Page(items=found)

        return Pages(fetch)


async def _outcomes(store: Store, state: MultiAgentState) -> list[api.TaskOutcome]:
    """The tasks in the plan's order, with their results."""
    if state.decomposition is None:
        return []
    told: dict[str, api.PlanTask] = {}
    where = EventFilter(types={"task"}, session_id=state.session_id)
    async for _, plan in _plans(store, where, None):
        told = {task.task_id: task for task in plan}
        break
    results = {each.task_id: each for each in state.results}
    return [
        _outcome(task, told.get(task.task_id), results.get(task.task_id))
        for task in state.decomposition.tasks
    ]


def _outcome(
    task: AgentTask, told: api.PlanTask | None, result: AgentResult | None
) -> api.TaskOutcome:
    return api.TaskOutcome(
        task_id=task.task_id,
        agent=task.agent,
        description=task.description,
        depends_on=task.depends_on,
        status=_status_of(result) if told is None else told.status,  # There may be no events.
        attempts=0 if told is None else told.attempts,
        started_at=None if told is None else told.started_at,
        ended_at=None if told is None else told.ended_at,
        error=result.error if result is not None else None if told is None else told.error,
        sessions=() if told is None else told.sessions,
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
    """The tasks of plans, each with the cursor of a page that begins with its plan."""
    while True:
        page = await store.find_events(where, limit=_PAGE, cursor=cursor)
        before = cursor or ""
        for event, place in zip(page.events, page.cursors, strict=True):
            if _phase(event) == "decomposed":
                yield before, await _tasks(store, event)
            before = place
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
    is_last = True
    seen: _Task | None = None
    for event in events:
        if event.type != "task":
            if seen is not None:
                seen.see_question(event)
            seen = None
            continue
        if _phase(event) == "decomposed":
            is_last = False
            break
        seen = tasks.get(str((event.details or {}).get("task_id")))
        if seen is not None:
            seen.see(event)
    is_under_way = is_last and state_of(row) not in ("idle", "failed")
    return [each.told(plan, is_under_way=is_under_way) for each in tasks.values()]


@dataclass(slots=True)
class _Task:
    planned: Mapping[str, Any]
    status: api.TaskStatus = "pending"
    attempts: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    sessions: list[str] = field(default_factory=list)

    def see(self, event: Event) -> None:
        """An event of the task."""
        details = event.details or {}
        if details.get("phase") == "started":
            self.status, self.error, self.ended_at = "running", None, None
            self.attempts += 1
            self.started_at = self.started_at or event.at_us / 1e6
        elif details.get("phase") == "finished":
            self.status = "done" if details.get("success") else "failed"
            self.error, self.ended_at = event.error, event.at_us / 1e6

    def see_question(self, event: Event) -> None:
        """The event after its start: its agent got a query, in a session of its own."""
        asked = (event.details or {}).get("asks")
        session = asked.get("session") if isinstance(asked, Mapping) else None
        if self.status == "running" and isinstance(session, str):
            self.sessions.append(session)

    def told(self, plan: Event, *, is_under_way: bool) -> api.PlanTask:
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
            status="stopped" if is_open and not is_under_way else self.status,
            attempts=self.attempts,
            started_at=self.started_at,
            ended_at=self.ended_at,
            error=self.error,
            sessions=tuple(self.sessions),
        )


def _phase(event: Event) -> str | None:
    phase = (event.details or {}).get("phase")
    return phase if isinstance(phase, str) else None
