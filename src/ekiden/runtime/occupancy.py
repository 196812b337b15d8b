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
        busy = await sessions_at_work(run, target.name)
        if busy >= target.max_sessions:
            return f"it has {busy} sessions at work, and takes {target.max_sessions}"
    return None


async def sessions_at_work(run: RunState, agent: str) -> int:
    """How many sessions with work to do the agent has, over all processes."""
    page = await run.store.list(SessionFilter(status="ready", agent=agent), limit=_MOST_COUNTED)
    return sum(1 for row in page.sessions if row.id != run.session_id)
