"""Plans of supervisors as JSON, and their tasks over all sessions."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ekiden.app.records.session_states import state_of
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.events import Event
from ekiden.core.jsonio import dumps
from ekiden.core.plan import AgentResult, AgentTask, MultiAgentState
from ekiden.storage.base import EventFilter, Store

TaskStatus: TypeAlias = Literal["pending", "running", "done", "failed", "stopped"]
"""`pending`: waits for its turn, or for others; `stopped`: the run ended before it was over."""

_PAGE: Final = 100
_CURSOR: Final = re.compile(r"([0-9]{1,4})~([0-9.\-]{0,80})", re.ASCII)


async def plan_record(store: Store, state: MultiAgentState) -> dict[str, Any]:
    """A plan as it stands, with how far it came and what became of each task."""
    total = 0 if state.decomposition is None else len(state.decomposition.tasks)
    done = sum(result.success for result in state.results)
    return {
        **state.to_json(),
        "progress": {
            "tasks": total,
            "done": done,
            "failed": len(state.results) - done,
            "open": max(total - len(state.results), 0),
        },
        "tasks": await _tasks_of(store, state),
    }


async def _tasks_of(store: Store, state: MultiAgentState) -> list[dict[str, Any]]:
    """The tasks in the plan's order, as `find_tasks` tells of them, with their results."""
    if state.decomposition is None:
        return []
    told: dict[str, dict[str, Any]] = {}
    async for _, plan in _plans(store, TaskQuery(session_id=state.session_id), None):
        told = {task["task_id"]: task for task in plan}
        break
    results = {each.task_id: each for each in state.results}
    return [
        _with_result(task, told.get(task.task_id), results.get(task.task_id))
        for task in state.decomposition.tasks
    ]


def _with_result(
    task: AgentTask, told: Mapping[str, Any] | None, result: AgentResult | None
) -> dict[str, Any]:
    told = told or _Task({}, status=_status_of(result)).to_json()  # There may be no events of it.
    return {
        **{name: told[name] for name in ("status", "attempts", "started_at", "ended_at")},
        "task_id": task.task_id,
        "agent": task.agent,
        "description": task.description,
        "depends_on": list(task.depends_on),
        "error": told["error"] if result is None else result.error,
        "result": None if result is None or not result.success else _as_text(result.data),
        "sessions": list(told["sessions"]),
    }


def _status_of(result: AgentResult | None) -> TaskStatus:
    if result is None:
        return "pending"
    return "done" if result.success else "failed"


def _as_text(data: Any) -> str:
    return data if isinstance(data, str) else dumps(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks to find; `None` does not restrict."""

    session_id: str | None = None
    agent: str | None = None
    status: TaskStatus | None = None
    since_us: int | None = None
    """Of plans that were made then or later."""
    until_us: int | None = None

    def matches(self, task: Mapping[str, Any]) -> bool:
        """Whether the task is one of those, but for its session and time."""
        return self.agent in (None, task["agent"]) and self.status in (None, task["status"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """Some tasks, and how to get the next ones."""

    tasks: list[dict[str, Any]]
    next_cursor: str | None


async def find_tasks(
    store: Store, query: TaskQuery, *, limit: int, cursor: str | None = None
) -> TaskPage:
    """One page of tasks: those of the newest plan first, within a plan in its order.

    Stores have no index of plans: without a session all events are looked at, down to the last
    task that is shown. `UserError` for a cursor that is none.
    """
    begin, skip = _parsed(cursor)
    found: list[dict[str, Any]] = []
    last = ""
    async for before, plan in _plans(store, query, begin):
        for place, task in enumerate(plan):
            if (before == (begin or "") and place < skip) or not query.matches(task):
                continue
            if len(found) == limit:
                return TaskPage(tasks=found, next_cursor=last)
            found.append(task)
            last = f"{place + 1}~{before}"
    return TaskPage(tasks=found, next_cursor=None)


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
    store: Store, query: TaskQuery, cursor: str | None
) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Plans, each with the cursor of a page that begins with it."""
    where = EventFilter(
        types={"task"},
        session_id=query.session_id,
        since_us=query.since_us,
        until_us=query.until_us,
    )
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


async def _tasks(store: Store, plan: Event) -> list[dict[str, Any]]:
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
    told = {
        "session_id": plan.session_id,
        "supervisor": plan.agent,
        "plan": plan.seq,
        "planned_at": plan.at_us / 1e6,
    }
    return [{**told, **each.to_json(is_under_way=is_under_way)} for each in tasks.values()]


@dataclass(slots=True)
class _Task:
    told: Mapping[str, Any]
    status: TaskStatus = "pending"
    attempts: int = 0
    times: dict[str, float | None] = field(
        default_factory=lambda: {"started_at": None, "ended_at": None}
    )
    error: str | None = None
    sessions: list[str] = field(default_factory=list)

    def see(self, event: Event) -> None:
        """Something happened to it."""
        details = event.details or {}
        if details.get("phase") == "started":
            self.status, self.error, self.times["ended_at"] = "running", None, None
            self.attempts += 1
            self.times["started_at"] = self.times["started_at"] or event.at_us / 1e6
        elif details.get("phase") == "finished":
            self.status = "done" if details.get("success") else "failed"
            self.error, self.times["ended_at"] = event.error, event.at_us / 1e6

    def see_question(self, event: Event) -> None:
        """What followed its beginning: its agent was asked, in a session of its own."""
        asked = (event.details or {}).get("asks")
        session = asked.get("session") if isinstance(asked, Mapping) else None
        if self.status == "running" and isinstance(session, str):
            self.sessions.append(session)

    def to_json(self, *, is_under_way: bool = True) -> dict[str, Any]:
        """As programs read it."""
        is_open = self.status in ("pending", "running")
        return {
            "task_id": str(self.told.get("task_id")),
            "agent": str(self.told.get("agent")),
            "description": self.told.get("description"),
            "depends_on": list(self.told.get("depends_on", ())),
            "status": "stopped" if is_open and not is_under_way else self.status,
            "attempts": self.attempts,
            **self.times,
            "error": self.error,
            "sessions": self.sessions,
        }


def _phase(event: Event) -> str | None:
    phase = (event.details or {}).get("phase")
    return phase if isinstance(phase, str) else None
