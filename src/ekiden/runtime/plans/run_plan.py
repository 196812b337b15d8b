"""Running a plan: split the request, give the tasks to agents, combine the results.

Every task is a question to an agent, which works on it in a session of its own. A plan is stored as
steps of the supervisor's one turn: the decomposition, the start of each task, its attempts with
their answers, and its result. So the supervisor costs nothing while agents work, and a process that
resumes it, after a crash or on another machine, finds the same plan and runs no task again that has
a result.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ekiden.core.conversation.model import assistant_message
from ekiden.core.conversation.quotes import last_request
from ekiden.core.errors import ModelBehaviorError, SessionError, StoreUnavailable, UserError
from ekiden.core.errors.messages import BusError
from ekiden.core.faults import fault_point
from ekiden.core.plan import (
    AgentResult,
    PlanFailed,
    PlanSettings,
    TaskDecomposition,
)
from ekiden.core.questions import Ask
from ekiden.core.runs import Done
from ekiden.core.values import dumps
from ekiden.runtime.guardrails.output import approve
from ekiden.runtime.outcome import told_outside, warn
from ekiden.runtime.plans.steps import PlanSteps, plan_model
from ekiden.runtime.questions.questions import CodeQuestions, Suspended, pause
from ekiden.runtime.state.budget import Spent, UnknownPrice, narrowed
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn.turn import conclude, start_agent
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
