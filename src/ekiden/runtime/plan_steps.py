"""The stored steps of a plan: written and read by its run, and read by `plan_state`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.conversation.messages import AgentMessage, error_of
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.conversation.quotes import last_request
from ekiden.core.documents import to_json
from ekiden.core.errors import OutOfBudgetError, UserError
from ekiden.core.events import Event
from ekiden.core.plan import (
    AgentResult,
    AgentTask,
    MultiAgentState,
    PlanSettings,
    TaskDecomposition,
)
from ekiden.core.runs import OutOfBudget
from ekiden.runtime.outcome import recorded_outcome
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.state import RunState
from ekiden.sessions import said
from ekiden.storage.base import Store
from ekiden.supervisor import state_of

_FINAL = frozenset({
    "agent.unknown", "bus.payload_too_large", "model.refused", "run.max_turns", "run.out_of_budget",
    "user.error",
})  # fmt: skip
"""Codes of failures that another attempt cannot change."""


class PlanSteps:
    """The plan of the current run, read from its stored steps and written to them."""

    def __init__(self, run: RunState, settings: PlanSettings) -> None:
        self._run = run
        self._settings = settings
        self._life = lives(run)
        self.now_us = 0
        """The store's time of the last check for results."""
        stored = self._get("plan")
        self.plan = None if stored is None else TaskDecomposition.from_json(stored)
        """The plan; `None` until the request is split."""
        self._last_number = 0
        self._ended: set[int] = set()
        self.results = self._stored_results()
        """The results of finished tasks, in order of arrival."""

    def _stored_results(self) -> list[AgentResult]:
        places = range(0 if self.plan is None else len(self.plan.tasks))
        found = [self._result(place) for place in places]
        numbered = {each[0]: each[1] for each in found if each is not None}
        self._last_number = max(numbered, default=0)
        self._ended = {place for place, each in zip(places, found, strict=True) if each is not None}
        return [numbered[number] for number in sorted(numbered)]

    def _result(self, place: int) -> tuple[int, AgentResult] | None:
        """The task's result with its number in order of arrival: a success of any life, or a
        failure of the current life."""
        for life in range(self._life + 1):
            stored = self._run.memo.get(self._key(place, "result", life=life))
            if stored is None or not (stored[1]["success"] or life == self._life):
                continue
            number, result, attempt = stored
            if result["success"] and attempt:
                tried = self._run.memo[self._key(place, "try", attempt, life=life)]
                result = {**result, "data": _data(tried["answer"] or {})}
            return number, AgentResult.from_json(result)
        return None

    def begin(self, plan: TaskDecomposition) -> None:
        """Record and store the plan."""
        self.plan = plan
        details: dict[str, Any] = {
            "phase": "decomposed",
            "tasks": [{"task_id": each.task_id, "agent": each.agent} for each in plan.tasks],
        }
        if self._run.config.trace_include_sensitive_data:
            for task, shown in zip(plan.tasks, details["tasks"], strict=True):
                shown["description"] = task.description
                if task.depends_on:
                    shown["depends_on"] = list(task.depends_on)
            if plan.reasoning:
                details["reasoning"] = plan.reasoning
            if plan.notes:
                details["notes"] = list(plan.notes)
        self._run.record("task", details=details)
        self._set(plan.to_json(), "plan")

    def begin_aggregation(self) -> None:
        """Record that all tasks are finished and the results are being combined."""
        if self._get("aggregating") is None:
            self._run.record("task", details={"phase": "aggregating"})
            self._set(True, "aggregating")

    def begin_attempt(self, place: int, task: AgentTask, attempt: int) -> None:
        """Record an attempt at the task."""
        details: dict[str, Any] = {"phase": "started", "task_id": task.task_id, "agent": task.agent}
        if attempt > 1:
            details["attempt"] = attempt
        self._run.record("task", details=details)
        if self._get(place, "began") is None:
            self._set(self.now_us, place, "began")

    def end(self, place: int, result: AgentResult) -> None:
        """Record and store the result of the task."""
        self.results.append(result)
        self._ended.add(place)
        self._last_number += 1
        # The data may be large, and is already stored in the answer to the attempt.
        stored = {**to_json(result), "data": None}
        attempt = self.last_attempt(place) if result.success else 0
        self._set([self._last_number, stored, attempt], place, "result")
        details = {
            "phase": "finished",
            "task_id": result.task_id,
            "agent": result.agent,
            "success": result.success,
        }
        self._run.record(
            "task",
            details=details,
            duration_us=int(result.execution_time * 1e6),
            error=result.error,
        )

    def is_over(self, plan: TaskDecomposition) -> bool:
        """Whether every task has a result."""
        return len(self.results) == len(plan.tasks)

    def has_result(self, place: int) -> bool:
        """Whether the task has a result."""
        return place in self._ended

    def running(self, plan: TaskDecomposition) -> set[str]:
        """The ids of tasks that have started and have no result."""
        return {
            task.task_id
            for place, task in enumerate(plan.tasks)
            if self._get(place, "began") is not None and not self.has_result(place)
        }

    def outcome(self, place: int, task: AgentTask) -> AgentResult | None:
        """The result of the task's last attempt; `None` while the agent works, or if the attempt
        will be repeated."""
        began_us = self._get(place, "began")
        if began_us is None:
            return None
        attempt = self.last_attempt(place)
        stored = self._get(place, "try", attempt)
        if stored is None:
            return None
        answer: dict[str, Any] = stored["answer"] or {}
        failure = _failure(stored, task)
        is_final = attempt > self._settings.retries or answer.get("code") in _FINAL
        if failure is not None and not is_final:
            return None
        if failure is not None and attempt > 1:
            failure = f"{failure} (after {attempt} attempts)"
        return AgentResult(
            task_id=task.task_id,
            agent=task.agent,
            success=failure is None,
            data=None if failure is not None else _data(answer),
            error=failure,
            execution_time=max((stored.get("at_us", self.now_us) - began_us) / 1e6, 0.0),
        )

    def last_attempt(self, place: int) -> int:
        """The number of the task's last attempt."""
        number = 1
        while self._is_known(self.attempt_key(place, number + 1)):
            number += 1
        return number

    def is_asked(self, place: int, attempt: int) -> bool:
        """Whether the attempt has started and has no result yet."""
        return self.attempt_key(place, attempt) in self._run.cursor.questions.open

    def has_ended(self, place: int, attempt: int) -> bool:
        """Whether the attempt has ended."""
        return self.attempt_key(place, attempt) in self._run.memo

    def has_paused(self, place: int, attempt: int) -> bool:
        """Whether the pause after the attempt has ended."""
        return self.pause_key(place, attempt) in self._run.memo

    def is_pausing(self, place: int, attempt: int) -> bool:
        """Whether the pause after the attempt has started."""
        return self._is_known(self.pause_key(place, attempt))

    def attempt_key(self, place: int, attempt: int) -> str:
        """The key of the step with the agent's answer."""
        return self._key(place, "try", attempt)

    def pause_key(self, place: int, attempt: int) -> str:
        """The key of the step for the pause after a failed attempt."""
        return self._key(place, "pause", attempt)

    def _is_known(self, key: str) -> bool:
        return key in self._run.memo or key in self._run.cursor.questions.open

    def _key(self, *parts: object, life: int | None = None) -> str:
        life = self._life if life is None else life
        first = "s" if life == 0 or parts == ("plan",) else f"s{life}"
        return self._run.step_key(".".join(map(str, (first, *parts))))

    def _get(self, *parts: object) -> Any:
        return self._run.memo.get(self._key(*parts))

    def _set(self, value: Any, *parts: object) -> None:
        key = self._key(*parts)
        self._run.remember(key, value)
        self._run.memo = {**self._run.memo, key: value}


def lives(run: RunState) -> int:
    """How often the run failed and was resumed. After each resume, failed tasks are tried again
    under new step keys."""
    return sum((event.details or {}).get("outcome") == "failed" for event in run.events)


def _data(answer: dict[str, Any]) -> Any:
    """The agent's answer; an empty answer is also a success."""
    payload = answer.get("payload")
    return "" if payload is None else payload


def _failure(stored: dict[str, Any], task: AgentTask) -> str | None:
    """Why the attempt failed; `None` if it succeeded."""
    if stored["state"] == "timed_out":
        return "it took too long"
    answer = stored["answer"]
    if answer is None:
        return f"the task was {stored['state']}"
    asked = AgentMessage(
        id=stored["id"],
        type="query",
        from_agent=stored["by"],
        to_agent=task.agent,
        subject=task.description[:80],
    )
    error = error_of(answer, asked)
    if error is None:
        return None
    return str(answer.get("error") or error)


_PLAN = ".s.plan"
_MOST_LIVES = 100
"""The maximum number of lives of a run that are read."""


async def plan_state(store: Store, session_id: str) -> MultiAgentState:
    """Return the plan of the session's last run, with its progress. Raises `SessionNotFound`.

    Raises `UserError` if that run had no supervisor. For example::

        state = await plan_state(store, "customer-7")
        print(state.phase, [task.agent for task in state.pending_tasks])
        for result in state.results:
            print(result.agent, result.data if result.success else result.error)
    """
    await store.open()
    row = await store.get(session_id)
    cursor = Cursor.from_json(row.cursor)
    events = [each for each in await store.events(session_id) if each.seq >= cursor.progress.first]
    steps = await store.steps(session_id, prefix=f"{cursor.progress.run}.")
    plans = sorted((key for key in steps if key.endswith(_PLAN)), key=_turn)
    if not plans and not any(event.type == "task" for event in events):
        problem = _error(events)
        if problem is None:
            raise UserError(f"the last run of session {session_id!r} had no plan")
    prefix = plans[-1].removesuffix("plan") if plans else None
    return state_of(
        last_request([item for event in said(events) for item in event.items]),
        session_id=session_id,
        decomposition=None if prefix is None else steps[f"{prefix}plan"],
        results=()
        if prefix is None
        else _results(steps, prefix, len(steps[f"{prefix}plan"]["tasks"])),
        started=() if prefix is None else _started(steps, prefix),
        final_response=_answer(events) if row.outcome == "done" else None,
        error=_error(events),
    )


def _turn(key: str) -> int:
    return int(key.split(".")[1])


def _results(steps: Mapping[str, Any], first: str, count: int) -> list[Mapping[str, Any]]:
    """The latest result of each task over all lives of the run, in order of arrival."""
    found: dict[int, tuple[int, Mapping[str, Any]]] = {}
    for life in range(_MOST_LIVES):
        prefix = first if life == 0 else f"{first[:-1]}{life}."
        for place in range(count):
            stored = steps.get(f"{prefix}{place}.result")
            if stored is None:
                continue
            number, result, attempt = stored
            if attempt:
                answer = steps[f"{prefix}{place}.try.{attempt}"]["answer"] or {}
                payload = answer.get("payload")
                result = {**result, "data": "" if payload is None else payload}
            found[place] = (number, result)
    return [result for _, result in sorted(found.values(), key=lambda each: each[0])]


def _started(steps: Mapping[str, Any], prefix: str) -> list[str]:
    return [key for key in steps if key.startswith(prefix) and key.endswith(".began")]


def _answer(events: Sequence[Event]) -> str | None:
    texts = [
        text_of(item)
        for event in said(events)
        for item in event.items
        if is_message(item) and item.get("role") == "assistant"
    ]
    return texts[-1] if texts else None


def _error(events: Sequence[Event]) -> str | None:
    if not events:
        return None
    last = events[-1]
    if last.type == "agent_error":
        return last.error
    outcome = recorded_outcome(last)
    return (
        str(OutOfBudgetError(outcome.limit, outcome.allowed, outcome.used))
        if isinstance(outcome, OutOfBudget)
        else None
    )
