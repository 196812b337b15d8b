"""Who can take a task now."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.handoff.validation import unavailable
from ekiden.runtime.calls import settled
from ekiden.runtime.state import RunState
from ekiden.storage.base import SessionFilter, Store

_MOST_COUNTED = 1000


async def check_available(run: RunState, target: Agent[Any]) -> None:
    """`HandoffRefused` if the target takes nothing now."""
    why = await is_available(run, target)
    if why is not None:
        raise unavailable(target.name, why)


async def is_available(run: RunState, target: Agent[Any]) -> str | None:
    """Why the target is not available for the run; `None` if it is."""
    return await why_unavailable(run.store, target, run.context, session_id=run.session_id)


async def why_unavailable(
    store: Store, target: Agent[Any], context: RunContextWrapper[Any], session_id: str = ""
) -> str | None:
    """Why the target takes nothing now, whatever it has in the session; `None` if it does."""
    if callable(target.available):
        if not await settled(target.available(context, target)):
            return "it says so"
    elif not target.available:
        return "it is switched off"
    if target.max_sessions is not None:
        most = target.max_sessions
        if await sessions_at_work(store, target.name, session_id, at_most=most) == most:
            return f"it has as many sessions at work as it takes, {most}"
    return None


async def sessions_at_work(
    store: Store, agent: str, session_id: str = "", *, at_most: int = _MOST_COUNTED
) -> int:
    """How many sessions with work to do the agent has, but for this one, over all processes;
    counting ends with `at_most`."""
    # One of those that are found may be this session.
    page = await store.list(SessionFilter(status="ready", agent=agent), limit=at_most + 1)
    return min(at_most, sum(1 for row in page.sessions if row.id != session_id))
