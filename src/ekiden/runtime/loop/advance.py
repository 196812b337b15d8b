"""`advance`: the only unit of work, and the one loop of the system."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing, nullcontext
from typing import Any

from ekiden.core.conversation.model import Item, ModelDelta
from ekiden.core.current_agent import ACTING, LOGGED
from ekiden.core.errors import (
    EkidenError,
    HandoffRefused,
    SessionError,
    StoreUnavailable,
    UserError,
)
from ekiden.core.events import Event
from ekiden.core.guardrails import GuardrailError
from ekiden.core.profile import NOT_CODE
from ekiden.core.runs import OutOfBudget
from ekiden.core.started_by_agents import pass_on_agents
from ekiden.runtime.handoff.rollback import finish_rollback, give_back
from ekiden.runtime.kinds.registry import kind_of
from ekiden.runtime.outcome import fail, finish, is_bug, leave_to_worker, log_error
from ekiden.runtime.questions.cancel_question import WITHDRAWN, is_withdrawn
from ekiden.runtime.questions.questions import is_suspended
from ekiden.runtime.state.budget import Spent, allowed, as_set, own_left
from ekiden.runtime.state.ledger import read_day
from ekiden.runtime.state.state import RunState, load_memo
from ekiden.runtime.turn import (
    TimeLimit,
    has_triggers,
    over_limit,
    resume_acting,
    settle_answer,
    time_left,
)
from ekiden.tools.under_way import CallUnderWay, watch_threads


async def advance(run: RunState) -> AsyncGenerator[Event | ModelDelta, None]:
    """Run a session until it ends or has to wait, and yield its events.

    Every event is stored before it is shown. At the end `run.outcome` is set; if the run failed,
    `run.exception` is also set. The process may be killed at any time: another `advance` continues
    from the last stored step. Raises `LeaseLost` when another process owns the session, and
    `StoreUnavailable` when nothing can be stored. The iterator ends without an outcome when the
    conversation goes to an agent that another process must run.
    """
    pass_on_agents()
    for shown in _news(run):
        yield shown
    # A session that answers a question may be woken because its asker gave up.
    if run.was_woken and await is_withdrawn(run):
        await finish(run, WITHDRAWN)
    try:
        # After a handoff the active agent may belong to another process, which then continues.
        while run.outcome is None and run.options.is_served(run.agent):
            if run.live:
                # A streamed run takes each step in a task of its own, so that events are shown
                # during the step. Other runs save the cost of that task.
                async with aclosing(_watched(run)) as steps:
                    async for shown in steps:
                        yield shown
            else:
                if run.hold is None:
                    await _step(run)
                else:
                    with run.hold.step(_this_task()):
                        await _step(run)
                for shown in _news(run):
                    yield shown
        if run.outcome is None:
            await leave_to_worker(run)
    finally:
        run.deadline.close()
        if run.children.tasks:
            await run.children.stop()
        run.let_context_go()
    for shown in _news(run):
        yield shown
    if run.outcome is not None and run.interruption.look:
        from ekiden.runtime.loop.late_requests import serve_late_requests

        await serve_late_requests(run)
    if run.children.notified and run.options.drives:
        from ekiden.runtime.loop.answer_wait import run_notified

        await run_notified(run, advance)


def _news(run: RunState) -> Sequence[Event | ModelDelta]:
    """The events and deltas to show now."""
    return run.outbox.take() if run.is_watched else ()


def _step(run: RunState) -> Coroutine[Any, Any, None]:
    """One step, with its time limit; a handoff request may also interrupt it."""
    # Most steps have no limit, and `asyncio.timeout` for each would cost more than the step's own
    # work.
    if not run.is_reachable and run.day is None and time_left(run)[0] is None:
        return _guarded(run)
    return _bounded(run)


async def _bounded(run: RunState) -> None:
    if run.day is not None:
        run.day.ledger = await read_day(run, 0)
    left, cause = time_left(run)
    scope = asyncio.timeout(left)
    try:
        async with scope:
            run.interruption.begin_step(scope)
            await _guarded(run)
    except TimeoutError:
        if not scope.expired():
            raise  # A timeout of the agent's own code is a failure of the step.
        if run.outcome is not None:
            return  # The run ended just before the time limit.
        # The step was interrupted inside a commit whose outcome is unknown: this process must not
        # store anything after it.
        if run.broken is not None:
            raise run.broken from None
        run.discard()
        await _guarded(run, _after_interruption(run, cause))
        if run.outcome is None:
            await load_memo(run)  # If the step is repeated, its stored results are reused.
    finally:
        run.interruption.end_step()


async def _after_interruption(run: RunState, cause: TimeLimit | None) -> None:
    """Continue after a step that reached its time limit or was interrupted by a request."""
    if run.is_undoing:
        return
    if run.interruption.at_once:
        from ekiden.runtime.handoff.requests import serve_requests

        await serve_requests(run)
    elif cause == "trigger":
        from ekiden.runtime.handoff.triggers import fire_for_time

        await fire_for_time(run)
    elif cause == "handoff":
        pending = run.cursor.handoffs.pending
        if pending is None:
            return  # The handoff was confirmed just before its deadline.
        await _recover(
            run, HandoffRefused("TIMEOUT", f"{pending.target!r} did not take over within its time")
        )
    elif cause == "agent":
        over = own_left(run)
        if over is not None:
            await _end_over_limit(run, over)
    elif cause == "tenant" and run.config.daily is not None:
        seconds = run.config.daily.seconds or 0
        await finish(run, OutOfBudget("seconds", seconds, seconds, scope="tenant"))
    elif cause == "run":
        seconds = allowed(run, "seconds") or 0
        await _end_over_limit(run, OutOfBudget("seconds", seconds, max(run.spent_s(), seconds)))
    # Without a cause, the request that interrupted the step is already served: repeat the step.


async def _guarded(run: RunState, step: Coroutine[Any, Any, None] | None = None) -> None:
    """Take the given step, or the next one, in the name of the active agent, and settle its
    failure. Hooks, instructions and callbacks also run in the agent's name."""
    agent = run.agent.name
    run.task = asyncio.current_task()
    call: CallUnderWay | None = None
    # The same as `acting_as` and `logging_for`, inlined because every step passes here.
    acting, logged = ACTING.set(agent), LOGGED.set(run)
    try:
        if run.cursor.handoffs.open:  # A rollback waits for calls that cannot be stopped.
            watch_threads()
            call = CallUnderWay(run, agent)
            call.__enter__()
        failure: BaseException | None = None
        try:
            await (step or _turn(run) or _next_step(run))
        except (SessionError, StoreUnavailable):
            raise
        except BaseException as exc:
            # Settled outside of the `except`, where it would become the context of every later
            # error.
            failure = exc
        if failure is not None:
            try:
                await _settle(run, failure)
            finally:
                del failure  # Its traceback refers to this frame: a cycle that would keep the run.
    finally:
        if call is not None:
            call.__exit__()
        LOGGED.reset(logged)
        ACTING.reset(acting)


async def _settle(run: RunState, exc: BaseException) -> None:
    """End a step that raised `exc`: roll back, wait for answers, or end the run."""
    if isinstance(exc, Spent):
        run.discard()
        await _end_over_limit(run, exc.over)
        return
    if isinstance(exc, asyncio.CancelledError):
        # A cancellation from outside belongs to the caller. Otherwise code inside the step
        # cancelled itself, which is a failure.
        if _this_task().cancelling():
            raise exc
        failure: Exception = EkidenError("the step was cancelled from within, not from outside")
        failure.__cause__ = exc
    elif isinstance(exc, SystemExit):
        code = exc.code
        failure = EkidenError(f"code of the run tried to end the process (exit code {code!r})")
        failure.__cause__ = exc
    elif isinstance(exc, Exception):
        failure = exc
    elif is_suspended(exc):
        from ekiden.runtime.loop.answer_wait import wait_for_answers

        try:
            await wait_for_answers(run, advance)
        except (SessionError, StoreUnavailable):
            raise
        except BaseException as another:
            await _settle(run, another)
        return
    else:
        raise exc
    run.discard()
    await _recover(run, failure)


async def _recover(run: RunState, failure: Exception) -> None:
    """After a failure: roll back the open handoff, or let an `error` trigger hand over, or end the
    run.

    A source that got the conversation back more than `model_retries` times counts as failed: then
    the handoff to it is also rolled back.
    """
    if is_bug(failure) and (run.cursor.handoffs.open or not isinstance(failure, UserError)):
        log_error(run, f"agent {run.agent.name!r}", failure)
    while run.cursor.handoffs.open:
        await give_back(run, failure)
        if run.outcome is not None or run.cursor.handoffs.rollbacks <= run.config.model_retries:
            return
    if run.agent.handoffs:
        from ekiden.runtime.handoff.triggers import fire_for_error

        try:
            if await fire_for_error(run, failure):
                return
        except (UserError, GuardrailError) as exc:
            failure = exc
    await fail(run, failure)


async def _end_over_limit(run: RunState, over: OutOfBudget) -> None:
    """After a limit is reached: roll back if the limit came with an open handoff, else end the
    run."""
    cause = None if over.scope == "tenant" else _cause(run, over)
    over = as_set(run, over)
    if cause is None:
        await finish(run, over)
        return
    target = run.cursor.handoffs.open[cause].target
    refusal = HandoffRefused(
        "BUDGET_EXCEEDED",
        f"{target!r} used up its budget of {over.allowed:g} {over.limit} ({over.used:g} used)",
    )
    # The last handoff first: each rollback restores the state of its own source.
    while len(run.cursor.handoffs.open) > cause:
        await give_back(run, refusal)
    if run.outcome is None and run.cursor.handoffs.rollbacks > run.config.model_retries:
        await _recover(run, refusal)


def _cause(run: RunState, over: OutOfBudget) -> int | None:
    """The index of the last open handoff whose source was below the limit; `None` if there is
    none."""
    # It is the active agent's own limit, so the handoff to this agent is the cause.
    if run.agent.budget is not None and getattr(run.agent.budget, over.limit, None) == over.allowed:
        return len(run.cursor.handoffs.open) - 1 if run.cursor.handoffs.open else None
    own: float | None = getattr(run.config.limits, over.limit)
    for place, pending in reversed(list(enumerate(run.cursor.handoffs.open))):
        # The limit that the source had; `None` if no earlier handoff had lowered it.
        before: float | None = pending.saved.get("budget", {}).get(over.limit)
        if all(limit is None or limit > over.used for limit in (own, before)):
            return place
    return None


def _turn(run: RunState) -> Coroutine[Any, Any, None] | None:
    """The next turn of the active agent, if nothing else comes first; `None` otherwise."""
    cursor, agent = run.cursor, run.agent
    if (
        # A fast check for the usual turn; `_next_step` handles each of these cases.
        cursor.progress.phase != "think"
        or run.memo
        or cursor.questions.open
        or run.day is not None
        or run.interruption.look
        or run.config.input_guardrails
        or agent.input_guardrails
        or (cursor.handoffs.open and cursor.handoffs.is_rolling_back)
        or over_limit(run) is not None
        or has_triggers(agent)
    ):
        return None
    run.questions = None
    return kind_of(agent).take_turn(run)


async def _next_step(run: RunState) -> None:
    """Take the next step: what comes first has priority."""
    cursor = run.cursor
    run.questions = None
    if cursor.handoffs.open and cursor.handoffs.is_rolling_back:
        await finish_rollback(run)
        return
    if cursor.questions.open and not await _answers_came(run):
        return
    if cursor.progress.phase == "act":
        await resume_acting(run, _stored_calls(run))
        return
    if cursor.progress.phase == "answered":
        await settle_answer(run)
        return
    # The spending of its tasks must not stop a supervisor from answering. Its own model calls
    # check the limit.
    is_answering = cursor.progress.started and run.agent.traits.is_supervisor
    limit = None if is_answering else over_limit(run)
    if limit is None and run.day is not None and run.day.ledger is not None:
        limit = run.day.ledger.over()
    if limit is not None:
        await _end_over_limit(run, limit)
        return
    if run.interruption.look:
        from ekiden.runtime.handoff.requests import serve_requests

        if await serve_requests(run):
            return
    if (cursor.progress.started or not cursor.handoffs.open) and has_triggers(run.agent):
        from ekiden.runtime.handoff.triggers import look_at_triggers

        if await look_at_triggers(run):
            return
    agent = run.agent
    if run.memo and agent.traits.name in NOT_CODE:
        from ekiden.runtime.tools.run_tools import settle_code_calls

        await settle_code_calls(run)
    if (run.config.input_guardrails or agent.input_guardrails) and not cursor.guardrails.checks:
        from ekiden.runtime.guardrails.input import check_first

        await check_first(run)
    await kind_of(agent).take_turn(run)


async def _answers_came(run: RunState) -> bool:
    """Whether answers came, so that the waiting code can continue; otherwise wait for them."""
    from ekiden.runtime.loop.answer_wait import wait_for_answers
    from ekiden.runtime.questions.answers import collect_answers

    if await collect_answers(run):
        return True
    await wait_for_answers(run, advance)
    return False


async def _watched(run: RunState) -> AsyncGenerator[Event | ModelDelta, None]:
    """Take one step, and yield its events and deltas during the step."""
    news = run.outbox.watch()
    run.driver = _this_task()
    step = asyncio.create_task(_step(run))
    step.add_done_callback(lambda _: news.set())
    try:
        with nullcontext() if run.hold is None else run.hold.step(step):
            while True:
                news.clear()
                while run.outbox.waiting:
                    yield run.outbox.waiting[0]
                    del run.outbox.waiting[0]
                run.outbox.note_all_seen()
                if step.done():
                    break
                await news.wait()
            await step
    finally:
        if not step.done():
            step.cancel()
            await asyncio.wait({step})


def _this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _stored_calls(run: RunState) -> list[Item]:
    for event in run.events:
        if event.seq == run.cursor.progress.calls:
            return [item for item in event.items if item.get("type") == "function_call"]
    return []
