"""Runs a plan: splits the request, gives the tasks to agents, and combines the results.

Every task is a question to an agent, which works on the task in a session of its own. A plan is
stored as steps of the supervisor's only turn. The steps are the decomposition, and for each task
its start, its attempts with their answers, and its result. So the supervisor uses no resources
while agents work. A process that resumes the supervisor finds the same plan, and repeats no task
that has a result.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ekiden.core.conversation.model import ModelRequest, ModelResponse, assistant_message
from ekiden.core.conversation.quotes import last_request
from ekiden.core.errors import ModelBehaviorError, SessionError, StoreUnavailable, UserError
from ekiden.core.errors.messages import BusError
from ekiden.core.faults import fault_point
from ekiden.core.plan import AgentResult, AskModel, PlanFailed, PlanSettings, TaskDecomposition
from ekiden.core.questions import Ask
from ekiden.core.runs import Done
from ekiden.core.values import dumps
from ekiden.runtime.guardrails.output import approve
from ekiden.runtime.model_call import call_model, resolve, system_prompt
from ekiden.runtime.outcome import describe_to_others, warn
from ekiden.runtime.plan_steps import PlanSteps, lives
from ekiden.runtime.questions.questions import CodeQuestions, Suspended, pause
from ekiden.runtime.state.budget import Spent, UnknownPrice, narrowed
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn import call_details, conclude, over_limit, start_agent
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
    """Take the turn of a supervisor, in which its plan continues. Raises `Suspended` while agents
    work on tasks.

    Raises `PlanFailed` if no task succeeded, and the exceptions of the decomposer.
    """
    settings = run.agent.plan
    assert settings is not None
    if not run.cursor.progress.started:
        await start_agent(run)
    run.children.eager = True
    if run.agent.budget is not None:
        # The supervisor's budget also limits its tasks.
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
    decomposer = f"the decomposer of {run.agent.name!r}"
    if not isinstance(plan, TaskDecomposition):
        raise UserError(f"{decomposer} returned {type(plan).__name__}, not a TaskDecomposition")
    if len(plan.tasks) > settings.max_tasks:
        raise UserError(
            f"{decomposer} made {len(plan.tasks)} tasks of the request; `max_tasks` is "
            f"{settings.max_tasks}: raise it, or ask for less at a time"
        )
    names = {agent.name for agent in settings.members}
    for task in plan.tasks:
        if task.agent not in names:
            raise UserError(
                f"{decomposer} made a task for {task.agent!r}, which is not among its agents"
            )


async def _collect(run: RunState, plan: TaskDecomposition, steps: PlanSteps) -> None:
    """Store new results, and the failures of tasks that cannot start because of them."""
    # The time of the next tasks starts here, so it does not include making the plan.
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
    """Ask the agents of all tasks that can start now, and repeat failed attempts.

    Returns False if a task failed because its agent cannot be asked: then there is more to do.
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
                    # The run was stopped, and its question withdrawn: ask again.
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
    questions = CodeQuestions(run, key, task=f"{run.task_id}/{place + 1}")
    try:
        question = _question(run, plan, place, steps.results)
        run.find_agent(task.agent)
        questions.check(question)
    except (UserError, BusError) as exc:
        steps.end(
            place,
            AgentResult(task_id=task.task_id, agent=task.agent, success=False, error=str(exc)),
        )
        return

    def put() -> None:
        steps.begin_attempt(place, task, attempt)
        questions.put(key, question, now_us=steps.now_us)

    run.put_question(key, put)


def _question(
    run: RunState, plan: TaskDecomposition, place: int, results: list[AgentResult]
) -> Ask:
    settings, task = run.agent.plan, plan.tasks[place]
    assert settings is not None
    subject = f"task {place + 1} of {len(plan.tasks)}"
    if run.config.trace_include_sensitive_data:
        subject = " ".join(task.description.split())[:_MAX_SUBJECT]
    return Ask(
        agent=task.agent,
        subject=subject,
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
    details = await approve(run, answer)
    run.cursor.handoffs.work += 1
    run.record("task", details={"phase": "completed"})
    items = (assistant_message(answer),)
    run.record("message", items=items, step=run.step_key("m"), details=details)
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
            raise ModelBehaviorError(f"the aggregator of {run.agent.name!r} did not answer")
        return answer
    except (SessionError, StoreUnavailable, Spent, UnknownPrice):
        raise
    except (Exception, SystemExit, asyncio.CancelledError) as exc:
        if is_being_cancelled():
            raise
        warn(run, f"aggregator of {run.agent.name!r}", exc)
        return uncombined_results(settings, aggregator, state, problem=describe_to_others(exc))


def plan_model(run: RunState) -> AskModel | None:
    """A function that calls the supervisor's model; `None` if the supervisor has no model."""
    if not (run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")):
        return None
    return _model_caller(run)


def _model_caller(run: RunState) -> Callable[[ModelRequest], Awaitable[ModelResponse]]:
    calls = 0
    settings = run.agent.model_settings
    if run.config.model_settings is not None:
        settings = settings.resolve(run.config.model_settings)

    async def ask(request: ModelRequest) -> ModelResponse:
        nonlocal calls
        calls += 1
        # Splitting and combining are never in the same step, so the purpose and the number of the
        # call identify it after a restart.
        purpose = "plan" if run.memo.get(run.step_key("s.plan")) is None else "answer"
        key = run.step_key(f"s.{purpose}{lives(run) or ''}.m{calls}")
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
