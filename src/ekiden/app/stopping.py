"""Stopping a run that nobody here works on, or not yet: it waits, or another process has it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ekiden.core.errors import SessionBusy, UnknownAgent
from ekiden.runtime.questions.withdrawing import ask_to_stop, take_back
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionRow, Store

_PATIENCE_S = 5.0
"""How long one waits for another process to stop a run."""
_LOOK_EVERY_S = 0.25


async def is_stopped(
    store: Store,
    session_id: str,
    number: int,
    stop_parked: Callable[[str], Awaitable[None]],
    *,
    began: float,
) -> bool:
    """Stop the run if nobody has it, or ask the process that has it; whether it is stopped then.

    If its owner dies or lets go of it meanwhile, `stop_parked` stops it here. If nobody does in
    time, the request stays in the store until somebody has seen to it. The time is that since
    `began`, as the loop tells it.
    """
    clock = asyncio.get_running_loop()
    deadline = began + _PATIENCE_S
    has_asked = False
    while True:
        row = await store.get(session_id)
        if not _is_over(row, number) and (row.owner is None or not has_asked):
            with suppress(SessionBusy, UnknownAgent):
                await stop_parked(session_id)
                row = await store.get(session_id)
        if _is_over(row, number):
            if has_asked:
                await take_back(store, session_id)
            return True
        if not has_asked:
            has_asked = True
            await ask_to_stop(store, session_id, number)
            continue
        left_s = deadline - clock.time()
        if left_s <= 0:
            return False
        await store.wait_for_change(min(left_s, _LOOK_EVERY_S))


def _is_over(row: SessionRow, number: int) -> bool:
    """Whether nobody works on the session's run of that number, and nobody will by himself."""
    return run_number(row) != number or row.status == "idle"
