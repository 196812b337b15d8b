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
from ekiden.core.runs import OutOfBudget
from ekiden.runtime.handoff.rollback import finish_rollback, give_back
from ekiden.runtime.kinds.registry import kind_of
from ekiden.runtime.outcome import fail, finish, is_bug, leave_to_worker, log_error
from ekiden.runtime.questions.cancel_question import WITHDRAWN, is_withdrawn
from ekiden.runtime.questions.questions import is_suspended
from ekiden.runtime.state.budget import Spent, allowed, as_set, own_left
from ekiden.runtime.state.cursor import limit_before
from ekiden.runtime.state.ledger import read_day
from ekiden.runtime.state.state import RunState, load_memo
from ekiden.runtime.turn.turn import (
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
    for shown in _news(run):
        yield shown
    # A session that answers a question may be woken because its asker gave up.
    if run.was_woken and await is_withdrawn(run):
        await finish(run, WITHDRAWN)
    try:
        # After a handoff the agent may be one that this process does not have: then another one
        # goes on.
        while run.outcome is None and run.options.is_served(run.agent):
            if run.live:
                # A streamed run takes each step in a task of its own, so that events are shown
                # while the step is under way. Other runs save that task.
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
        from ekiden.runtime.loop.late_requests import serve_left

        await serve_left(run)
    if run.children.told and run.options.drives:
        from ekiden.runtime.loop.answer_wait import run_told

        await run_told(run, advance)


def _news(run: RunState) -> Sequence[Event | ModelDelta]:
    """What observers are shown now."""
    shown = run.outbox.take()
    return shown if run.is_watched else ()


def _step(run: RunState) -> Coroutine[Any, Any, None]:
    """One step, limited to its time; a request from outside may also cut it short."""
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
        # A time-out of the agent's own code, which is a failure like any other.
        if not scope.expired():
            raise
        if run.outcome is not None:
            return  # It came to its end at the last moment.
        # The step was cut off inside a commit whose outcome is unknown: nothing may be stored after
        # it.
        if run.broken is not None:
            raise run.broken from None
        run.discard()
        await _guarded(run, _cut_short(run, cause))
        if run.outcome is None:
            await load_memo(run)  # If the step is taken again, what is stored of it counts.
    finally:
        run.interruption.end_step()


async def _cut_short(run: RunState, cause: TimeLimit | None) -> None:
    """What comes after a step that was not finished in time, or was not to be finished."""
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
            return  # It was confirmed at the last moment.
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
    # Else somebody wanted it interrupted, and was served before it was: the step is taken again.


async def _guarded(run: RunState, step: Coroutine[Any, Any, None] | None = None) -> None:
    """The next step, or this one, done by the agent: its hooks, instructions and callbacks are its
    code, too."""
    agent = run.agent.name
    call: CallUnderWay | None = None
    # `acting_as` and `logging_for`, spelled out: every step passes here.
    acting, logged = ACTING.set(agent), LOGGED.set(run)
    try:
        if run.cursor.handoffs.open:  # What the agent does may have to be undone.
            watch_threads()
            call = CallUnderWay(run, agent)
            call.__enter__()
        wrong: BaseException | None = None
        try:
            await (step or _turn(run) or _next_step(run))
        except (SessionError, StoreUnavailable):
            raise
        except BaseException as exc:
            # Settled below, outside of the `except`: there it would be the context of every later
            # error.
            wrong = exc
        if wrong is not None:
            try:
                await _settle(run, wrong)
            finally:
                del wrong  # Else it would keep this frame, and all that it refers to.
    finally:
        if call is not None:
            call.__exit__()
        LOGGED.reset(logged)
        ACTING.reset(acting)


async def _settle(run: RunState, wrong: BaseException) -> None:
    """Store what went wrong in a step as its end, or give a handoff back."""
    if isinstance(wrong, Spent):
        run.discard()
        await _end_over_limit(run, wrong.over)
        return
    if isinstance(wrong, asyncio.CancelledError):
        # Somebody cancelled this task from outside, and gets the cancellation. Without such a
        # request, code inside the step cancelled itself, which is a failure.
        if _this_task().cancelling():
            raise wrong
        failure: Exception = EkidenError("the step was cancelled from within, not from outside")
        failure.__cause__ = wrong
    elif isinstance(wrong, SystemExit):
        code = wrong.code
        failure = EkidenError(f"code of the run tried to end the process (exit code {code!r})")
        failure.__cause__ = wrong
    elif isinstance(wrong, Exception):
        failure = wrong
    elif is_suspended(wrong):
        from ekiden.runtime.loop.answer_wait import wait_for_answers

        try:
            await wait_for_answers(run, advance)
        except (SessionError, StoreUnavailable):
            raise
        except BaseException as exc:
            await _settle(run, exc)
        return
    else:
        raise wrong
    run.discard()
    await _recover(run, failure)


async def _recover(run: RunState, failure: Exception) -> None:
    """Undo the handoff that led here, or hand over because of the error, or end the run.

    A source that got the conversation back more often than a model may err has failed itself: then
    the handoff before it is undone.
    """
    if is_bug(failure) and (run.cursor.handoffs.open or not isinstance(failure, UserError)):
        log_error(run, f"agent {run.agent.name!r}", failure)
    while run.cursor.handoffs.open:
        await give_back(run, failure)
        # The source continues, unless it already got the conversation back too often.
        if run.outcome is not None or run.cursor.handoffs.rollbacks <= run.config.model_retries:
            return
    if run.agent.handoffs:
        from ekiden.runtime.handoff.triggers import fire_for_error

        try:
            if await fire_for_error(run, failure):
                return
        except (UserError, GuardrailError) as wrong:
            failure = wrong
    await fail(run, failure)


async def _end_over_limit(run: RunState, over: OutOfBudget) -> None:
    """A limit is reached: a budget that came with an open handoff undoes it, else the run ends."""
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
    # The last one first: each rollback restores what its own source had.
    while len(run.cursor.handoffs.open) > cause:
        await give_back(run, refusal)
    if run.outcome is None and run.cursor.handoffs.rollbacks > run.config.model_retries:
        await _recover(run, refusal)


def _cause(run: RunState, over: OutOfBudget) -> int | None:
    """The place of the last open handoff whose source had more left; `None` if none had."""
    if run.agent.budget is not None and getattr(run.agent.budget, over.limit, None) == over.allowed:
        return len(run.cursor.handoffs.open) - 1 if run.cursor.handoffs.open else None
    own: float | None = getattr(run.config.limits, over.limit)
    for place, pending in reversed(list(enumerate(run.cursor.handoffs.open))):
        had = limit_before(pending.saved, over.limit)
        if all(limit is None or limit > over.used for limit in (own, had)):
            return place
    return None


def _turn(run: RunState) -> Coroutine[Any, Any, None] | None:
    """The next turn of the active agent, if nothing else has to be looked at before."""
    cursor, agent = run.cursor, run.agent
    if (
        # The usual turn needs one look at these; `_next_step` looks at each of them in order.
        cursor.progress.phase != "think"
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
    cursor = run.cursor
    run.questions = None
    # A rollback that was begun is finished before anything else, also after a crash.
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
    # What its tasks spent does not keep a supervisor from answering; its own calls ask.
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
    if (run.config.input_guardrails or agent.input_guardrails) and not cursor.guardrails.checks:
        from ekiden.runtime.guardrails.input import check_first

        await check_first(run)
    await kind_of(agent).take_turn(run)


async def _answers_came(run: RunState) -> bool:
    """Whether the waiting code can continue; if not, the run waits."""
    from ekiden.runtime.loop.answer_wait import wait_for_answers
    from ekiden.runtime.questions.answers import collect_answers

    if await collect_answers(run):
        return True
    await wait_for_answers(run, advance)
    return False


async def _watched(run: RunState) -> AsyncGenerator[Event | ModelDelta, None]:
    """One step, shown while it happens."""
    news = run.outbox.watch()
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
