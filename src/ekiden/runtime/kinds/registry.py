"""The kinds of agents, and the choice of the agent that gets a message.

A new kind of agent is a registered `AgentKind`; no other code depends on the kind of an agent. The
code of most kinds is loaded when the first of its agents has a turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Item, assistant_message, function_call, to_items
from ekiden.core.conversation.quotes import last_request
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import HandoffRefused, NoRoute, UserError
from ekiden.core.faults import fault_point
from ekiden.core.profile import (
    CODE,
    MODEL,
    PERSON,
    ROUTER,
    RUNNER,
    SUPERVISOR,
    KindTraits,
    add_traits,
)
from ekiden.core.roles import AgentReply, RemoteTask, RouteCause
from ekiden.core.runs import Done
from ekiden.core.values import dumps
from ekiden.handoff.requests import edge_between
from ekiden.runtime.config import AUTO, RunOptions
from ekiden.runtime.conversation import rollback_notices
from ekiden.runtime.state.cursor import NO_CHECKS
from ekiden.runtime.state.findings import tell_findings
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.offer import refresh_offer
from ekiden.runtime.turn import conclude, start_agent, think, time_left
from ekiden.storage.values import copy_json


class AgentKind(Protocol):
    """Defines how all agents of one kind take their turns. Register it with `register_agent_kind`.

    For example::

        class GraphKind(AgentKind):
            traits = KindTraits(name="graph")

            async def take_turn(self, run: RunState) -> None:
                await run_code(run, self.answer)

            async def answer(self, ctx: CodeContext) -> str:
                return await ctx.agent.implementation.ainvoke(ctx.text)


        register_agent_kind(GraphKind())
        research = Agent("research", kind="graph", implementation=graph)
    """

    traits: KindTraits

    async def take_turn(self, run: RunState) -> None:
        """Run the next part of the active agent's turn, and store it.

        Input guardrails, limits and triggers were already checked. Ekiden calls this method
        repeatedly until the turn has ended with an answer, a handoff or a wait. After a crash, work
        that was not stored is repeated. If the turn is an async function of a `CodeContext`,
        `run_code` does all of this. An exception rolls back the handoff to this agent. If there was
        no handoff, the run fails.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressee:
    """The agent that gets a new message."""

    agent: Agent[Any]
    route: Mapping[str, Any] | None = None
    """The routing decision, if there was one."""
    request: Mapping[str, Any] | None = None
    """The cause of the routing and the options for the router, if the agent is a router."""


async def addressee(
    options: RunOptions, holder: str, items: Sequence[Item], *, is_new: bool
) -> Addressee:
    """The agent that gets `items` in a session of the agent `holder`. Raises `UnknownAgent`.

    If the router is the team's entry agent, its decision is recorded, even if the session stays
    with its agent. If the session's agent is no longer in such a team, the router gets the session.
    """
    router = options.root.router if isinstance(options.root, Team) else None
    if options.to == AUTO and router is not None:
        return Addressee(agent=router, request=_request("asked", options.route_options))
    if options.to is not None:
        return _named(options.find(options.to))
    routed = router is not None and options.entry is router
    if router is not None and (holder == router.name or (routed and holder not in options.team)):
        return Addressee(agent=router, request=_request("new", options.route_options))
    if router is None or router.router is None or is_new or not routed:
        return Addressee(agent=options.find(holder))
    kept = await router.router.keep(last_request(items), agent=holder)
    return Addressee(agent=options.find(kept.agent or holder), route=kept.details)


async def assign(run: RunState) -> None:
    """Take the turn of a router: assign the conversation to another agent.

    The decision and the change of the active agent are one commit. If no agent is chosen, the
    router answers itself. Raises `NoRoute` if the router has no answer.
    """
    router, cursor = run.agent, run.cursor
    assert router.router is not None
    request = cursor.handoffs.route or {"cause": "gave_up" if cursor.handoffs.depth else "new"}
    began = run.config.clock.monotonic()
    fault_point("route.assign.before_call")
    chosen = await router.router.assign(
        last_request(run.visible),
        cause=request["cause"],
        excluded=frozenset(name for name in cursor.handoffs.chain[1:] if name != router.name),
        options=request.get("options"),
    )
    fault_point("route.assign.after_call")
    if chosen.usage is not None:
        cursor.budget.usage.add(chosen.usage)
    target = None if chosen.agent is None else run.find_agent(chosen.agent)
    if target is not None and target.traits.is_router:
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
    from ekiden.runtime.guardrails.output import approve

    reply = (assistant_message(chosen.reply),)
    details = await approve(run, chosen.reply)
    run.record("message", items=reply, step=run.step_key("m"), details=details)
    await conclude(run, [], Done(chosen.reply))


def _move(run: RunState, target: Agent[Any]) -> None:
    # The agent replaces the router, because an assignment does not count as a handoff.
    run.cursor.handoffs.chain[-1] = target.name
    run.cursor.progress.started = False
    run.cursor.guardrails = NO_CHECKS
    run.offer.prompt_block = None
    run.know(target)
    run.agent = target
    run.memo = {}


def _named(agent: Agent[Any]) -> Addressee:
    if agent.router is not None:
        return Addressee(agent=agent, request=_request("asked", None))
    decision = {
        "agent": agent.name,
        "method": "named",
        "confidence": 100,
        "reason": "the person named it",
        "cause": "named",
    }
    return Addressee(agent=agent, route=decision)


def _request(cause: RouteCause, options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"cause": cause, "options": dict(options)} if options else {"cause": cause}


async def run_remote_agent(run: RunState) -> None:
    """Take the turn of a remote agent: send the task to its runner, and apply the reply.

    The reply and its effect are one commit. After a crash before the commit, the task is sent again
    with the same idempotency key.
    """
    if not run.cursor.progress.started:
        await start_agent(run)
    await refresh_offer(run)
    began = run.config.clock.monotonic()
    key = run.step_key("m")
    reply = await _reply(run, key)
    if reply.declined is not None:
        raise HandoffRefused(
            "DECLINED", f"agent {run.agent.name!r} declined: {reply.declined[:2000]}"
        )
    if reply.usage is not None:
        run.cursor.budget.usage.add(reply.usage)
    items: list[Item] = to_items(tuple(reply.items))
    if reply.text is not None:
        items.append(assistant_message(reply.text))
    calls: list[Item] = []
    output: Any = reply.text if reply.output is None else reply.output
    details: dict[str, Any] | None = dict(reply.details) or None
    if reply.hand_to is None:
        from ekiden.runtime.guardrails.output import approve

        details = await approve(run, output, details)
    else:
        calls = [_transfer_call(run, key, reply)]
        if run.cursor.guardrails.found:
            details = tell_findings(run, details)
    run.record(
        "message",
        items=(*items, *calls),
        step=key,
        duration_us=int((run.config.clock.monotonic() - began) * 1e6),
        details=details,
    )
    run.cursor.handoffs.work += bool(items)
    await conclude(run, calls, None if calls else Done(output))


def _transfer_call(run: RunState, key: str, reply: AgentReply) -> Item:
    edge = edge_between(run.agent, reply.hand_to or "")
    passed = {"reason": reply.reason} if reply.reason else {}
    return function_call(f"call_{key.replace('.', '_')}", edge.tool_name, dumps(passed))


async def _reply(run: RunState, key: str) -> AgentReply:
    runner = run.agent.runner
    assert runner is not None
    left, _ = time_left(run)
    task = RemoteTask(
        task_id=run.task_id,
        session_id=run.session_id,
        agent=run.agent.name,
        items=(*run.visible, *rollback_notices(run)),
        received={**(run.cursor.handoffs.received or {}), "chain": list(run.cursor.handoffs.chain)},
        idempotency_key=f"{run.session_key}:{key}",
        timeout_s=left,
        variables=copy_json(run.variables.own),
    )
    fault_point("remote.task.before_call")
    reply = await runner.run_task(task)
    fault_point("remote.task.after_call")
    if not isinstance(reply, AgentReply):
        raise UserError(
            f"the runner of agent {run.agent.name!r} returned {type(reply).__name__}, "
            "not an AgentReply"
        )
    return reply


class _Model(AgentKind):
    traits = MODEL
    take_turn = staticmethod(think)


class _Router(AgentKind):
    traits = ROUTER
    take_turn = staticmethod(assign)


class _Supervisor(AgentKind):
    traits = SUPERVISOR

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.run_plan import supervise

        await supervise(run)


class _Code(AgentKind):
    traits = CODE

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.kinds.code_agent import run_code

        assert run.agent.run is not None
        await run_code(run, run.agent.run)


class _Person(AgentKind):
    traits = PERSON

    async def take_turn(self, run: RunState) -> None:
        from ekiden.runtime.kinds.people import wait_for_person

        await wait_for_person(run)


class _Runner(AgentKind):
    traits = RUNNER
    take_turn = staticmethod(run_remote_agent)


class _Registered(AgentKind):
    """A registered kind. A turn without an effect raises `UserError`: it would be repeated for
    ever."""

    def __init__(self, kind: AgentKind) -> None:
        self.traits = kind.traits
        self._kind = kind

    async def take_turn(self, run: RunState) -> None:
        agent, events = run.agent, run.next_seq
        await self._kind.take_turn(run)
        if run.next_seq == events and run.agent is agent and run.outcome is None:
            raise UserError(
                f"an agent of the kind {self.traits.name!r} ended its turn without a result: "
                "it must answer, hand over or wait, for instance with `run_code`"
            )


_kinds: dict[str, AgentKind] = {
    kind.traits.name: kind
    for kind in (_Model(), _Router(), _Supervisor(), _Code(), _Person(), _Runner())
}


def register_agent_kind(kind: AgentKind) -> None:
    """Register a kind of agents::

        register_agent_kind(GraphKind())
        research = Agent("research", kind="graph", implementation=graph)

    Every process must register a kind before it creates agents of this kind. A kind replaces an
    earlier kind with the same name. Raises `UserError` for the name of a built-in kind.
    """
    if not isinstance(getattr(kind, "traits", None), KindTraits):
        raise UserError(f"a kind of agents has `traits`, a KindTraits; {kind!r:.80} has none")
    if getattr(type(kind), "take_turn", None) in (None, AgentKind.take_turn):
        raise UserError(f"the kind {kind.traits.name!r} has no `take_turn` of its own")
    add_traits(kind.traits)
    _kinds[kind.traits.name] = _Registered(kind)


def kind_of(agent: Agent[Any]) -> AgentKind:
    """The kind of the agent."""
    return _kinds[agent.traits.name]
