"""`advance`: the only unit of work, and the one loop of the system."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from ekiden.core.errors import SessionError, StoreError
from ekiden.core.events import Event
from ekiden.core.items import Item
from ekiden.core.model import ModelDelta
from ekiden.runtime.code_agent import run_code
from ekiden.runtime.finish import fail, finish
from ekiden.runtime.limits import OverLimit, over_limit
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
            async for shown in _watched(run):
                yield shown
        else:
            await _step(run)
            for shown in run.take():
                yield shown


async def _step(run: RunState) -> None:
    cursor = run.cursor
    try:
        if cursor.phase == "act":
            await resume_acting(run, _stored_calls(run))
            return
        limit = over_limit(run)
        if limit is not None:
            await finish(run, limit)
        elif run.agent.run is not None:
            await run_code(run)
        else:
            await think(run)
    except OverLimit as over:
        await finish(run, over.outcome)
    except (SessionError, StoreError):
        raise
    except Exception as exc:
        if cursor.pending is not None and cursor.rollbacks < run.config.model_retries:
            await give_back(run, exc)
        else:
            await fail(run, exc)


async def _watched(run: RunState) -> AsyncGenerator[Event | ModelDelta, None]:
    """One step, shown while it happens."""
    news = run.watch()
    step = asyncio.create_task(_step(run))
    step.add_done_callback(lambda _: news.set())
    try:
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


def _stored_calls(run: RunState) -> list[Item]:
    for event in run.events:
        if event.seq == run.cursor.calls:
            return [item for item in event.items if item.get("type") == "function_call"]
    return []
