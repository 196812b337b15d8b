"""`advance`: the only unit of work, and the one loop of the system."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext

from ekiden.core.errors import EkidenError, SessionError, StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.items import Item
from ekiden.core.model import ModelDelta
from ekiden.core.outcomes import OutOfBudget
from ekiden.runtime.finish import fail, finish
from ekiden.runtime.limits import OverLimit, over_limit, seconds_left
from ekiden.runtime.state import RunState
from ekiden.runtime.transfer import give_back
from ekiden.runtime.turn import resume_acting, think


async def advance(run: RunState) -> AsyncGenerator[Event | ModelDelta, None]:
    """Take the next steps of a session until it ends or has to wait, and show what happens.

    Every event is stored before it is shown. Afterwards `run.outcome` is set, and `run.exception`
    if the run failed. The process may be killed at any instant: another `advance` goes on from the
    last step that was stored. Raises `LeaseLost` when somebody else owns the session, and
    `StoreUnavailable` when nothing can be stored.
    """
    for shown in run.take():
        yield shown
    while run.outcome is None:
        if run.live:
            async with aclosing(_watched(run)) as steps:
                async for shown in steps:
                    yield shown
        else:
            if run.hold is None:
                await _step(run)
            else:
                with run.hold.step(_this_task()):
                    await _step(run)
            for shown in run.take():
                yield shown


async def _step(run: RunState) -> None:
    left = seconds_left(run)
    if left is None:
        await _guarded_step(run)
        return
    scope = asyncio.timeout(left)
    try:
        async with scope:
            run.work.deadline = scope
            await _guarded_step(run)
    except TimeoutError:
        if not scope.expired() or run.outcome is not None:
            raise
        run.discard()
        await finish(run, OutOfBudget("seconds", run.config.limits.seconds or 0, run.spent_s()))
    finally:
        run.work.deadline = None


async def _guarded_step(run: RunState) -> None:
    """One step; whatever goes wrong in it is stored as its end, or gives a handoff back."""
    try:
        await _next_step(run)
        return
    except OverLimit as over:
        await finish(run, over.outcome)
        return
    except (SessionError, StoreUnavailable):
        raise
    except asyncio.CancelledError as exc:
        if _this_task().cancelling():
            raise
        failure: Exception = EkidenError("the step was cancelled from within, by nobody outside")
        failure.__cause__ = exc
    except SystemExit as exc:
        failure = EkidenError(f"code of the run tried to end the process (exit code {exc.code!r})")
        failure.__cause__ = exc
    except Exception as exc:
        failure = exc
    run.discard()
    if run.cursor.pending is not None:
        await give_back(run, failure)
        if run.cursor.rollbacks <= run.config.model_retries:
            return
    await fail(run, failure)


async def _next_step(run: RunState) -> None:
    if run.cursor.phase == "act":
        await resume_acting(run, _stored_calls(run))
        return
    limit = over_limit(run)
    if limit is not None:
        await finish(run, limit)
    elif run.agent.router is not None:
        from ekiden.runtime.assign import assign

        await assign(run)
    elif run.agent.run is not None:
        from ekiden.runtime.code_agent import run_code

        await run_code(run)
    else:
        await think(run)


async def _watched(run: RunState) -> AsyncGenerator[Event | ModelDelta, None]:
    """One step, shown while it happens."""
    news = run.watch()
    step = asyncio.create_task(_step(run))
    step.add_done_callback(lambda _: news.set())
    try:
        with nullcontext() if run.hold is None else run.hold.step(step):
            while True:
                news.clear()
                for shown in run.take():
                    yield shown
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
        if event.seq == run.cursor.calls:
            return [item for item in event.items if item.get("type") == "function_call"]
    return []
