"""Who can take a task now."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.handoff.validation import unavailable
from ekiden.runtime.calls import settled
from ekiden.runtime.state import RunState
from ekiden.storage.base import SessionFilter

_MOST_COUNTED = 1000


async def check_available(run: RunState, target: Agent[Any]) -> None:
    """`HandoffRefused` if the target takes nothing now."""
    why = await is_available(run, target)
    if why is not None:
        raise unavailable(target.name, why)


async def is_available(run: RunState, target: Agent[Any]) -> str | None:
    """Why the target is not available; `None` if it is."""
    if callable(target.available):
        if not await settled(target.available(run.context, target)):
            return "it says so"
    elif not target.available:
        return "it is switched off"
    if target.max_sessions is not None:
        most = target.max_sessions
        if await sessions_at_work(run, target.name, at_most=most) == most:
            return f"it has as many sessions at work as it takes, {most}"
    return None


async def sessions_at_work(run: RunState, agent: str, *, at_most: int = _MOST_COUNTED) -> int:
    """How many other sessions with work to do the agent has, over all processes; counting ends
    with `at_most`."""
    # One of those that are found may be this session.
    page = await run.store.list(SessionFilter(status="ready", agent=agent), limit=at_most + 1)
    return min(at_most, sum(1 for row in page.sessions if row.id != run.session_id))
