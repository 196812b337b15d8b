"""Who gets a message: the agent that has the session, one that is named, or a router's choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Item, assistant_message
from ekiden.core.conversation.quotes import last_request
from ekiden.core.errors import NoRoute, UserError
from ekiden.core.faults import fault_point
from ekiden.core.roles import RouteCause
from ekiden.core.runs import Done
from ekiden.runtime.config import AUTO, RunOptions
from ekiden.runtime.guardrails.output import approve
from ekiden.runtime.state.findings import tell_findings
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn.turn import conclude


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressee:
    """Whom a new message goes to."""

    agent: Agent[Any]
    route: Mapping[str, Any] | None = None
    """The decision, if one was taken."""
    asked: Mapping[str, Any] | None = None
    """What the router is to be asked, if the agent is one."""


async def addressee(
    options: RunOptions, holder: str, items: Sequence[Item], *, is_new: bool
) -> Addressee:
    """Whom `items` go to in a session that `holder` has; `UnknownAgent`.

    In a team that begins with its router the decision is part of what happened, also when it is to
    leave the session where it is. An agent that is no longer in such a team loses the session to
    the router.
    """
    router = options.root.router if isinstance(options.root, Team) else None
    if options.to == AUTO and router is not None:
        return Addressee(agent=router, asked=_asked("asked", options.route_options))
    if options.to is not None:
        return _named(options.find(options.to))
    routed = router is not None and options.entry is router
    if router is not None and (holder == router.name or (routed and holder not in options.team)):
        return Addressee(agent=router, asked=_asked("new", options.route_options))
    if router is None or router.router is None or is_new or not routed:
        return Addressee(agent=options.find(holder))
    kept = await router.router.keep(last_request(items), agent=holder)
    return Addressee(agent=options.find(kept.agent or holder), route=kept.details)


async def assign(run: RunState) -> None:
    """Let the active agent, a router, give the conversation to another one.

    The choice and the move are stored together. Where nobody is chosen the router answers
    instead; `NoRoute` if it has nothing to say.
    """
    router, cursor = run.agent, run.cursor
    assert router.router is not None
    asked = cursor.handoffs.route or {"cause": "gave_up" if cursor.handoffs.depth else "new"}
    began = run.config.clock.monotonic()
    fault_point("route.assign.before_call")
    chosen = await router.router.assign(
        last_request(run.visible),
        cause=asked["cause"],
        excluded=frozenset(name for name in cursor.handoffs.chain[1:] if name != router.name),
        options=asked.get("options"),
    )
    fault_point("route.assign.after_call")
    if chosen.usage is not None:
        cursor.budget.usage.add(chosen.usage)
    target = None if chosen.agent is None else run.find_agent(chosen.agent)
    if target is not None and target.traits.passes_on:
        raise UserError(f"router {router.name!r} chose {target.name!r}, which is a router itself")
    run.record(
        "route",
        step=run.step_key("r"),
        details=tell_findings(run, dict(chosen.details)),
        duration_us=int((run.config.clock.monotonic() - began) * 1e6),
    )
    cursor.handoffs.route = None
    if target is not None:
        _move(run, target)
        fault_point("route.assign.before_commit")
        await run.commit()
        fault_point("route.assign.after_commit")
        return
    if chosen.reply is None:
        raise NoRoute(str(chosen.details.get("reason") or "no agent matches"))
    told = await approve(run, chosen.reply)
    run.record(
        "message", items=(assistant_message(chosen.reply),), step=run.step_key("m"), details=told
    )
    await conclude(run, [], Done(chosen.reply))


def _move(run: RunState, target: Agent[Any]) -> None:
    run.cursor.handoffs.chain[-1] = target.name
    run.cursor.progress.started = False
    run.cursor.guardrails.hand_on()
    run.offer.prompt_block = None
    run.know(target)
    run.agent = target
    run.memo = {}


def _named(agent: Agent[Any]) -> Addressee:
    if agent.router is not None:
        return Addressee(agent=agent, asked=_asked("asked", None))
    decision = {
        "agent": agent.name,
        "method": "named",
        "confidence": 100,
        "reason": "the person named it",
        "cause": "named",
    }
    return Addressee(agent=agent, route=decision)


def _asked(cause: RouteCause, options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"cause": cause, "options": dict(options)} if options else {"cause": cause}
