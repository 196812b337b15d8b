"""Whom a handoff leads to."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import HandoffRefused, UnknownAgent, UserError
from ekiden.core.faults import fault_point
from ekiden.handoff import BEST
from ekiden.handoff.validation import check_depth, not_found, unavailable
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.state import RunState
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


async def find_target(run: RunState, attempt: Attempt) -> Agent[Any]:
    """The agent that the edge leads to; `HandoffRefused` if there is none.

    An edge that says beforehand whom it leads to is not invoked yet.
    """
    edge = attempt.edge
    if edge.agent is None:
        # Nobody is asked, and nobody's code is run, for a handoff that cannot be made anyway.
        check_depth(run.cursor.handoffs.depth, run.config.limits.depth)
        if edge.agent_name == BEST:
            return await _best(run, attempt)
        return await invoke_edge(run, attempt)
    known: Any = edge.agent
    if not isinstance(known, Agent):
        raise UserError(f"the handoff {edge.tool_name!r} leads to {known!r:.80}, not to an agent")
    return known


async def invoke_edge(run: RunState, attempt: Attempt) -> Agent[Any]:
    """Let the edge's own code have its say, which also gives the target."""
    edge = attempt.edge
    fault_point("handoff.validating.before_callback")
    target: Any = await edge.on_invoke_handoff(run.context, attempt.arguments)
    fault_point("handoff.validating.after_callback")
    if not isinstance(target, Agent):
        raise UserError(
            f"the handoff {edge.tool_name!r} gave {type(target).__name__}, not an agent"
        )
    if edge.agent is None and run.store.shared:
        # Whoever goes on with the session after a restart has to find it by its name.
        try:
            run.find_agent(target.name)
        except UnknownAgent:
            names = [agent.name for agent in run.team]
            raise not_found(target.name, names) from None
    return target


async def _best(run: RunState, attempt: Attempt) -> Agent[Any]:
    """The member of the team that is best at what is required, and free."""
    from ekiden.capabilities import CapabilityMatcher

    check_depth(run.cursor.handoffs.depth, run.config.limits.depth)
    required = (*attempt.edge.terms.capabilities, *attempt.capabilities)
    taken = {run.agent.name, *run.cursor.handoffs.chain}
    members = [
        agent
        for agent in run.team
        if agent.name not in taken and not agent.traits.passes_on and agent.scope != "system"
    ]
    matcher = CapabilityMatcher.of(members)
    for agent in members:
        if agent.capabilities:
            matcher.set_status(
                agent.name,
                available=await is_available(run, agent) is None,
                load=await sessions_at_work(run.store, agent.name, run.session_id),
            )
    able = matcher.find(required, min_score=0, available_only=True)
    best = next((match for match in able if not match.missing), None)
    if best is None:
        raise HandoffRefused(
            "CAPABILITY_MISSING",
            f"no other agent of the team that is available has all of {', '.join(required)}; "
            "go on without, or add an agent that has: `ekiden agents match` shows who has what",
        )
    return run.find_agent(best.agent)
