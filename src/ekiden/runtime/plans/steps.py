"""What is stored of a plan: steps of the supervisor's turn, by the place of each task."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ekiden.core.conversation.messages import AgentMessage, error_of
from ekiden.core.conversation.model import ModelRequest, ModelResponse
from ekiden.core.documents import to_json
from ekiden.core.plan import AgentResult, AgentTask, AskModel, PlanSettings, TaskDecomposition
from ekiden.runtime.state.budget import Spent
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn.model_call import call_model, resolve, system_prompt
from ekiden.runtime.turn.turn import call_details, over_limit

_FINAL = frozenset(
    {
        "agent.unknown",
        "bus.payload_too_large",
        "model.refused",
        "run.max_turns",
        "run.out_of_budget",
        "user.error",
    }
)
"""Codes of failures that another attempt would not change."""


class PlanSteps:
    """The plan of the run under way, read from its stored steps and written to them."""

    def __init__(self, run: RunState, settings: PlanSettings) -> None:
        self._run = run
        self._settings = settings
        self._life = lives(run)
        self.now_us = 0
        """The store's time when results were last looked for."""
        stored = self._get("plan")
        self.plan = None if stored is None else TaskDecomposition.from_json(stored)
        """`None` until the request is split."""
        self._taken = 0
        self._ended: set[int] = set()
        self.results = self._stored_results()
        """In the order in which they came."""

    def _stored_results(self) -> list[AgentResult]:
        places = range(0 if self.plan is None else len(self.plan.tasks))
        found = [self._result(place) for place in places]
        numbered = {each[0]: each[1] for each in found if each is not None}
        self._taken = max(numbered, default=0)
        self._ended = {place for place, each in zip(places, found, strict=True) if each is not None}
        return [numbered[number] for number in sorted(numbered)]

    def _result(self, place: int) -> tuple[int, AgentResult] | None:
        """The task's result and which one it was: a success of any life, a failure of this one."""
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
        """The request is split."""
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
        """Every task has its result."""
        if self._get("aggregating") is None:
            self._run.record("task", details={"phase": "aggregating"})
            self._set(True, "aggregating")

    def begin_attempt(self, place: int, task: AgentTask, attempt: int) -> None:
        """A task is given to its agent, for the first time or again."""
        details: dict[str, Any] = {
            "phase": "started",
            "task_id": task.task_id,
            "agent": task.agent,
        }
        if attempt > 1:
            details["attempt"] = attempt
        self._run.record("task", details=details)
        if self._get(place, "began") is None:
            self._set(self.now_us, place, "began")

    def end(self, place: int, result: AgentResult) -> None:
        """A task has its result."""
        self.results.append(result)
        self._ended.add(place)
        self._taken = max(self._taken, len(self.results) - 1) + 1
        # What the agent answered is stored with its answer, and may be large.
        stored = {**to_json(result), "data": None}
        attempt = self.last_attempt(place) if result.success else 0
        self._set([self._taken, stored, attempt], place, "result")
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
        """Whether the task is over."""
        return place in self._ended

    def running(self, plan: TaskDecomposition) -> set[str]:
        """Ids of tasks that began and are not over."""
        return {
            task.task_id
            for place, task in enumerate(plan.tasks)
            if self._get(place, "began") is not None and not self.has_result(place)
        }

    def outcome(self, place: int, task: AgentTask) -> AgentResult | None:
        """What the task's last attempt amounts to; `None` while it works, or is to be repeated."""
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
        """The number of the last attempt at a task that began."""
        number = 1
        while self._is_known(self.attempt_key(place, number + 1)):
            number += 1
        return number

    def is_asked(self, place: int, attempt: int) -> bool:
        """Whether the attempt is under way."""
        return self.attempt_key(place, attempt) in self._run.cursor.questions.open

    def has_ended(self, place: int, attempt: int) -> bool:
        """Whether the attempt is over."""
        return self.attempt_key(place, attempt) in self._run.memo

    def has_paused(self, place: int, attempt: int) -> bool:
        """Whether the pause after the attempt is over."""
        return self.pause_key(place, attempt) in self._run.memo

    def is_pausing(self, place: int, attempt: int) -> bool:
        """Whether the pause after the attempt began."""
        return self._is_known(self.pause_key(place, attempt))

    def attempt_key(self, place: int, attempt: int) -> str:
        """The step of an attempt: the answer of the agent."""
        return self._key(place, "try", attempt)

    def pause_key(self, place: int, attempt: int) -> str:
        """The step of the pause after a failed attempt."""
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
    """How often the run failed and was resumed: tasks that failed before are tried again."""
    return sum((event.details or {}).get("outcome") == "failed" for event in run.events)


def _data(answer: dict[str, Any]) -> Any:
    """What the agent answered; nothing is a success, too."""
    payload = answer.get("payload")
    return "" if payload is None else payload


def _failure(stored: dict[str, Any], task: AgentTask) -> str | None:
    """Why an attempt failed; `None` if it did not."""
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


def plan_model(run: RunState) -> AskModel | None:
    """What asks the supervisor's model; `None` if it has none."""
    if not (run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")):
        return None
    return _asking(run)


def _asking(run: RunState) -> Callable[[ModelRequest], Awaitable[ModelResponse]]:
    made = 0
    settings = run.agent.model_settings
    if run.config.model_settings is not None:
        settings = settings.resolve(run.config.model_settings)

    async def ask(request: ModelRequest) -> ModelResponse:
        nonlocal made
        made += 1
        # Splitting and putting together are never in one step: a call is known by what it is asked.
        purpose = "plan" if run.memo.get(run.step_key("s.plan")) is None else "answer"
        key = run.step_key(f"s.{purpose}{lives(run) or ''}.m{made}")
        stored: Any = run.memo.get(key)
        if stored is not None:
            return ModelResponse(output=stored)
        over = over_limit(run)
        if over is not None:
            raise Spent(over)
        own = await system_prompt(run)
        began = run.config.clock.monotonic()
        response = await call_model(
            run,
            resolve(run),
            replace(
                request,
                instructions="\n\n".join(filter(None, (request.instructions, own))) or None,
                settings=settings.resolve(request.settings),
                agent=run.agent.name,
                session_id=run.session_id,
                step=key,
            ),
        )
        duration_us = int((run.config.clock.monotonic() - began) * 1e6)
        details = {**(call_details(response) or {}), "for": purpose}
        run.record("llm_call", step=key, duration_us=duration_us, details=details)
        run.remember(key, response.output)
        await run.commit()
        run.memo = {**run.memo, key: response.output}
        return response

    return ask
