"""Running a plan: split the request, give the tasks to agents, combine the results.

Every task is a question to an agent, which works on it in a session of its own. A plan is stored as
steps of the supervisor's one turn: the decomposition, the start of each task, its attempts with
their answers, and its result. So the supervisor costs nothing while agents work, and a process that
resumes it, after a crash or on another machine, finds the same plan and runs no task again that has
a result.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ekiden.core.conversation.messages import AgentMessage, error_of
from ekiden.core.conversation.model import ModelRequest, ModelResponse, assistant_message
from ekiden.core.conversation.quotes import last_request
from ekiden.core.documents import to_json
from ekiden.core.errors import ModelBehaviorError, SessionError, StoreUnavailable, UserError
from ekiden.core.errors.messages import BusError
from ekiden.core.faults import fault_point
from ekiden.core.plan import (
    AgentResult,
    AgentTask,
    AskModel,
    PlanFailed,
    PlanSettings,
    TaskDecomposition,
)
from ekiden.core.questions import Ask
from ekiden.core.runs import Done
from ekiden.core.values import dumps
from ekiden.runtime.guardrails.output import approve
from ekiden.runtime.outcome import told_outside, warn
from ekiden.runtime.questions.questions import CodeQuestions, Suspended, pause
from ekiden.runtime.state.budget import Spent, UnknownPrice, narrowed
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn.model_call import call_model, resolve, system_prompt
from ekiden.runtime.turn.turn import call_details, conclude, over_limit, start_agent
from ekiden.supervisor import (
    aggregator_of,
    decomposer_of,
    members_of,
    next_tasks,
    retry_delay_s,
    state_of,
    task_text,
    uncombined_results,
)
from ekiden.tools.under_way import is_being_cancelled

_MAX_SUBJECT = 120


async def supervise(run: RunState) -> None:
    """Take the plan as far as it goes now; `Suspended` while agents work on its tasks.

    Raises `PlanFailed` if no task succeeded, and what the decomposer raises.
    """
    settings = run.agent.plan
    assert settings is not None
    if not run.cursor.progress.started:
        await start_agent(run)
    run.children.eager = True
    if run.agent.budget is not None:
        # What a supervisor may spend is what its tasks may spend, too.
        run.cursor.budget.narrowed = narrowed(run, run.agent.budget)
    steps = PlanSteps(run, settings)
    plan = steps.plan or await _decomposed(run, settings, steps)
    await _collect(run, plan, steps)
    while not steps.is_over(plan):
        if _begin_tasks(run, settings, plan, steps):
            raise Suspended
        await _collect(run, plan, steps)
    await _conclude(run, settings, plan, steps)


async def _decomposed(run: RunState, settings: PlanSettings, steps: PlanSteps) -> TaskDecomposition:
    ask = plan_model(run)
    plan = await decomposer_of(settings, has_model=ask is not None).decompose(
        last_request(run.visible),
        members=members_of(settings.members),
        fallback=settings.fallback_name,
        ask=ask,
    )
    _check(run, settings, plan)
    steps.begin(plan)
    fault_point("plan.decomposed.before_commit")
    await run.commit()
    fault_point("plan.decomposed.after_commit")
    return plan


def _check(run: RunState, settings: PlanSettings, plan: object) -> None:
    who = f"the decomposer of {run.agent.name!r}"
    if not isinstance(plan, TaskDecomposition):
        raise UserError(f"{who} gave {type(plan).__name__}, not a TaskDecomposition")
    if len(plan.tasks) > settings.max_tasks:
        raise UserError(
            f"{who} made {len(plan.tasks)} tasks of the request; `max_tasks` is "
            f"{settings.max_tasks}: raise it, or ask for less at a time"
        )
    names = {agent.name for agent in settings.members}
    for task in plan.tasks:
        if task.agent not in names:
            raise UserError(f"{who} made a task for {task.agent!r}, which is not among its agents")


async def _collect(run: RunState, plan: TaskDecomposition, steps: PlanSteps) -> None:
    """Store the results that came, and those of tasks that will never begin because of them."""
    # Tasks that follow begin now: their time does not run while the plan is made.
    steps.now_us = await run.store.now_us()
    for place, task in enumerate(plan.tasks):
        if not steps.has_result(place):
            result = steps.outcome(place, task)
            if result is not None:
                steps.end(place, result)
    skipped = next_tasks(plan, steps.results, steps.running(plan), 1).skipped
    for each in skipped:
        steps.end([task.task_id for task in plan.tasks].index(each.task_id), each)
    if (
        steps.is_over(plan)
        and plan.requires_aggregation
        and any(result.success for result in steps.results)
    ):
        steps.begin_aggregation()
    if run.has_news:
        fault_point("plan.result.before_commit")
        await run.commit()
        fault_point("plan.result.after_commit")


def _begin_tasks(
    run: RunState, settings: PlanSettings, plan: TaskDecomposition, steps: PlanSteps
) -> bool:
    """Ask for what can be done now: tasks, and further attempts at those that failed.

    `False` if there is something else to do: a task cannot even be asked for, and has failed.
    """
    ended = len(steps.results)
    running = steps.running(plan)
    start = next_tasks(plan, steps.results, running, settings.concurrency).start
    starting = {task.task_id for task in start}
    for place, task in enumerate(plan.tasks):
        if task.task_id in starting:
            _put_attempt(run, plan, steps, place, 1)
        elif task.task_id in running:
            attempt = steps.last_attempt(place)
            if not steps.has_ended(place, attempt):
                if not steps.is_asked(place, attempt):
                    # Who ran the plan was stopped, and what it asked withdrawn.
                    _put_attempt(run, plan, steps, place, attempt)
            elif steps.has_paused(place, attempt):
                _put_attempt(run, plan, steps, place, attempt + 1)
            elif not steps.is_pausing(place, attempt):
                key = steps.pause_key(place, attempt)
                delay_s = retry_delay_s(settings, attempt) or 0.0
                run.put_question(key, partial(pause, run, key, delay_s, steps.now_us))
    if len(steps.results) == ended:
        return True
    run.questions = None
    return False


def _put_attempt(
    run: RunState, plan: TaskDecomposition, steps: PlanSteps, place: int, attempt: int
) -> None:
    task, key = plan.tasks[place], steps.attempt_key(place, attempt)
    asking = CodeQuestions(run, key, task=f"{run.task_id}/{place + 1}")
    try:
        question = _question(run, plan, place, steps.results)
        run.find_agent(task.agent)
        asking.check(question)
    except (UserError, BusError) as exc:
        steps.end(
            place,
            AgentResult(task_id=task.task_id, agent=task.agent, success=False, error=str(exc)),
        )
        return

    def put() -> None:
        steps.begin_attempt(place, task, attempt)
        asking.put(key, question, now_us=steps.now_us)

    run.put_question(key, put)


def _question(
    run: RunState, plan: TaskDecomposition, place: int, results: list[AgentResult]
) -> Ask:
    settings, task = run.agent.plan, plan.tasks[place]
    assert settings is not None
    is_shown = run.config.trace_include_sensitive_data
    about = " ".join(task.description.split())[:_MAX_SUBJECT]
    return Ask(
        agent=task.agent,
        subject=about if is_shown else f"task {place + 1} of {len(plan.tasks)}",
        payload=dict(task.parameters) or None,
        timeout_s=settings.timeout_s,
        budget=settings.budget,
        words=task_text(task, plan, results),
    )


async def _conclude(
    run: RunState, settings: PlanSettings, plan: TaskDecomposition, steps: PlanSteps
) -> None:
    results = steps.results
    if not any(result.success for result in results):
        problems = "; ".join(f"{each.agent}: {each.error}" for each in results)
        raise PlanFailed(f"no task of the plan succeeded: {problems}")
    if plan.requires_aggregation:
        answer = await _aggregated(run, settings, plan, steps)
    else:
        answer = results[0].data if isinstance(results[0].data, str) else dumps(results[0].data)
    told = await approve(run, answer)
    run.cursor.handoffs.work += 1
    run.record("task", details={"phase": "completed"})
    run.record("message", items=(assistant_message(answer),), step=run.step_key("m"), details=told)
    fault_point("plan.answer.before_commit")
    await conclude(run, [], Done(answer))
    fault_point("plan.answer.after_commit")


async def _aggregated(
    run: RunState, settings: PlanSettings, plan: TaskDecomposition, steps: PlanSteps
) -> str:
    ask = plan_model(run)
    state = state_of(
        last_request(run.visible),
        session_id=run.session_id,
        decomposition=plan,
        results=steps.results,
    )
    aggregator = aggregator_of(settings, has_model=ask is not None)
    try:
        answer: Any = await aggregator.aggregate(state, ask=ask)
        if not isinstance(answer, str) or not answer.strip():
            raise ModelBehaviorError(f"the aggregator of {run.agent.name!r} gave no answer")
        return answer
    except (SessionError, StoreUnavailable, Spent, UnknownPrice):
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as exc:
        if is_being_cancelled():
            raise
        warn(run, f"aggregator of {run.agent.name!r}", exc)
        return uncombined_results(settings, aggregator, state, problem=told_outside(exc))


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
