"""Sends AG-UI events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ekiden.core.values import dumps
from ekiden.hub.tails import Shown
from ekiden.integrations.agui.events import AguiEvents
from ekiden.project.runs.stored_runs import questions_to_people
from ekiden.project.service import TenantService
from ekiden.server.streams.sse import BEAT


async def agui_stream(
    desk: TenantService, run_id: str, shown: AsyncGenerator[Shown | None, None], told: AguiEvents
) -> AsyncGenerator[bytes, None]:
    """What is shown of a run, and at its end how it stands."""
    for event in told.start():
        yield _sse(event)
    async with aclosing(shown):
        async for each in shown:
            if each is None:
                yield BEAT
                continue
            for event in told.take(each):
                yield _sse(event)
    run = await desk.runs.read(run_id)
    questions = await questions_to_people(desk.store, run.session_id)
    for event in told.finish(run, questions):
        yield _sse(event)


def agui_run_stream(
    desk: TenantService, run_id: str, *, through_waits: bool = False
) -> AsyncGenerator[bytes, None]:
    """A run from its beginning, as `GET /runs/{run_id}/events` shows it in this format.

    AG-UI events have no ids: whoever was cut off gets all of them again.
    """
    session_id = run_id.rpartition(":")[0]
    told = AguiEvents(thread_id=session_id, run_id=run_id, our_run_id=run_id)
    return agui_stream(desk, run_id, desk.runs.watch(run_id, through_waits=through_waits), told)


def _sse(event: dict[str, Any]) -> bytes:
    return f"data: {dumps(event)}\n\n".encode()
