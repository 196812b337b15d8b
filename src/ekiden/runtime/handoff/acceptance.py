"""The checks before a handoff: its target, the requester's additions, and the acceptance by target
and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import call_ids, function_call
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import HandoffRefused, UnknownAgent, UserError
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import Decline
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import BEST
from ekiden.handoff.requests import check_capabilities, check_depth, not_found, unavailable
from ekiden.runtime.conversation import check_condition
from ekiden.runtime.state.attempt import Attempt, announce
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor_handoffs import USER, TriggerSigns
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.variables import VariablesNow
from ekiden.storage.base import SessionFilter, Store


@dataclass(slots=True, eq=False)
class StateBefore:
    """The state of a run that callbacks and additions may change before a handoff is decided."""

    variables: VariablesNow
    triggers: TriggerSigns
    chain: list[str]
    work: int

    @classmethod
    def of(cls, run: RunState) -> StateBefore:
        """The current state."""
        cursor = run.cursor
        return cls(
            run.variables.now(),
            cursor.triggers,
            cursor.handoffs.chain.copy(),
            cursor.handoffs.work,
        )

    def restore(self, run: RunState) -> None:
        """Restore the state from before the attempt."""
        if run.variables.now() != self.variables:
            run.variables.go_back(self.variables)
        cursor = run.cursor
        cursor.triggers = self.triggers
        cursor.handoffs.chain, cursor.handoffs.work = self.chain, self.work


@contextmanager
def with_additions(run: RunState, attempt: Attempt, before: StateBefore) -> Iterator[None]:
    """Show the additions of the handoff to all checks in the ``with`` block.

    The added items are not recorded, and are removed after the block. The variables and the chain
    stay changed.
    """
    additions = attempt.additions
    attempt.before = before.variables
    for name, value in additions.variables.items():
        run.context.set(name, value)
    if additions.chain:
        run.cursor.handoffs.chain = joined_chain(additions.chain, before.chain)
    with run.showing(additions.items, as_history=run.before is not None):
        yield


@contextmanager
def held_back(run: RunState, attempt: Attempt) -> Iterator[None]:
    """Restore the variables inside the ``with`` block, which may commit. Added variables must be
    stored only together with the handoff."""
    if attempt.before is None:
        yield
        return
    now = run.variables.now()
    run.variables.go_back(attempt.before)
    try:
        yield
    finally:
        run.variables.go_back(now)


def record_additions(run: RunState, attempt: Attempt) -> None:
    """Record the additions of the handoff. The caller commits them."""
    items = attempt.additions.items
    if items or attempt.additions.variables:
        details = {"given": attempt.id}
        run.record("message", items=items, step=run.step_key("given"), details=details)
    if run.before is not None:
        run.history_length = len(run.visible)
    run.call_ids.update(call_ids(items))


def joined_chain(given: Sequence[str], chain: Sequence[str]) -> list[str]:
    """The chain, preceded by the agents of `given` that are missing in it. Each agent appears at
    least as often as in `chain` and as in `given`."""
    missing = Counter(given) - Counter(chain)
    earlier = []
    for name in given:
        if name != USER and missing[name] > 0:
            missing[name] -= 1
            earlier.append(name)
    return [USER, *earlier, *chain[1:]]


async def check_acceptance(
    run: RunState, attempt: Attempt, target: Agent[Any], data: dict[str, Any]
) -> None:
    """Check capabilities and conditions, and ask a person and the target if necessary. Raises
    `HandoffRefused` if one of them rejects the handoff."""
    terms = attempt.edge.terms
    check_capabilities(target, (*terms.capabilities, *attempt.capabilities))
    if attempt.is_conditional or attempt.condition:
        _check_conditions(run, attempt)
        fault_point("handoff.condition.after_check")
    if terms.confirm is not None and attempt.by.kind != "person":
        await _ask_person(run, attempt, data)
    if target.accepts is not None:
        await _offer(run, attempt, target, data)


def _check_conditions(run: RunState, attempt: Attempt) -> None:
    edge_condition = attempt.edge.terms.condition if attempt.is_conditional else None
    texts = [text for text in (edge_condition, attempt.condition) if text]
    if not texts:
        raise HandoffRefused(
            "CONDITIONS_NOT_MET", "the handoff has the policy 'conditional' and no `condition`"
        )
    for text in texts:
        check_condition(run, text)


async def _ask_person(run: RunState, attempt: Attempt, data: dict[str, Any]) -> None:
    """Ask for approval. Raises `HandoffRefused` without it, and `Suspended` to wait for it."""
    from ekiden.runtime.tools.confirmation import ask_first

    edge = attempt.edge
    call = attempt.call or function_call(f"call_{attempt.id}", edge.tool_name, attempt.arguments)
    as_tool = FunctionTool(
        name=edge.tool_name,
        description=edge.tool_description,
        params_json_schema=edge.input_json_schema,
        on_invoke_tool=_never,
        confirmation=edge.terms.confirm,
        needs_approval=edge.needs_approval or False,
    )
    key = attempt.question
    with held_back(run, attempt):
        if attempt.life.fresh:
            announce(run, attempt, data)
            if not isinstance(run.config.approver, str | None):
                # The approver answers within this process: the handoff is on record meanwhile.
                await run.commit()
        fault_point("handoff.confirmation.before_call")
        # The answer is stored before the handoff is made. After a crash the next process finds
        # the handoff on record, and reuses the answer if the handoff is the same.
        decision = await ask_first(run, as_tool, call, f".{key}")
    fault_point("handoff.confirmation.after_commit")
    if not decision.approved:
        raise HandoffRefused("NOT_APPROVED", decision.refusal().error or "a person said no")
    if decision.arguments is not None:
        attempt.arguments = decision.arguments


async def _never(context: Any, arguments: str) -> Any:
    raise AssertionError("a handoff cannot be called like a tool")


async def _offer(run: RunState, attempt: Attempt, target: Agent[Any], data: dict[str, Any]) -> None:
    """Call the target's `accepts`. Raises `HandoffRefused` if it declines."""
    assert target.accepts is not None
    fault_point("handoff.offer.before_call")
    answer = await settled(target.accepts(run.context, attempt.as_request(run, target, data)))
    fault_point("handoff.offer.after_call")
    if answer is True:
        return
    if answer is False:
        answer = Decline()
    if not isinstance(answer, Decline):
        raise UserError(
            f"`accepts` of agent {target.name!r} must return True, False or Decline(reason), "
            f"not {answer!r:.80}"
        )
    reason = str(answer.reason)[:2000] or "it gave no reason"
    raise HandoffRefused("DECLINED", f"agent {target.name!r} declined: {reason}")


_MOST_COUNTED = 1000


async def check_available(run: RunState, target: Agent[Any]) -> None:
    """Raise `HandoffRefused` if the target is not available."""
    why = await why_unavailable(run.store, target, run.context, run.session_id)
    if why is not None:
        raise unavailable(target.name, why)


async def why_unavailable(
    store: Store, target: Agent[Any], context: RunContextWrapper[Any], session_id: str = ""
) -> str | None:
    """Why the target is not available; `None` if the target is available. The session itself does
    not count as one of the target's sessions."""
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
    """The number of ready sessions of the agent in all processes, without this session. The result
    is at most `at_most`."""
    # One more is read, because the page may contain this session.
    page = await store.list(SessionFilter(status="ready", agent=agent), limit=at_most + 1)
    return min(at_most, sum(1 for row in page.sessions if row.id != session_id))


async def find_target(run: RunState, attempt: Attempt) -> Agent[Any]:
    """The target of `edge`, the declared handoff. Raises `HandoffRefused` if there is no target.

    If the target is fixed, this function does not call `on_invoke_handoff`.
    """
    edge = attempt.edge
    if edge.agent is None:
        # Checked before user code runs: a handoff beyond the depth limit is refused anyway.
        check_depth(run.cursor.handoffs.depth, run.config.limits.depth)
        if edge.agent_name == BEST:
            return await _best(run, attempt)
        return await invoke_edge(run, attempt)
    known: Any = edge.agent
    if not isinstance(known, Agent):
        raise UserError(f"the handoff {edge.tool_name!r} leads to {known!r:.80}, not to an agent")
    return known


async def invoke_edge(run: RunState, attempt: Attempt) -> Agent[Any]:
    """Call `on_invoke_handoff` of the declared handoff `edge`, which returns the target."""
    edge = attempt.edge
    fault_point("handoff.validating.before_callback")
    target: Any = await edge.on_invoke_handoff(run.context, attempt.arguments)
    fault_point("handoff.validating.after_callback")
    if not isinstance(target, Agent):
        raise UserError(
            f"the handoff {edge.tool_name!r} returned {type(target).__name__}, not an agent"
        )
    if edge.agent is None and run.store.shared:
        # After a restart, another process must find the agent by its name.
        try:
            run.find_agent(target.name)
        except UnknownAgent:
            names = [agent.name for agent in run.team]
            raise not_found(target.name, names) from None
    return target


async def _best(run: RunState, attempt: Attempt) -> Agent[Any]:
    """The best available member of the team that has all required capabilities."""
    from ekiden.capabilities import CapabilityMatcher

    check_depth(run.cursor.handoffs.depth, run.config.limits.depth)
    required = (*attempt.edge.terms.capabilities, *attempt.capabilities)
    taken = {run.agent.name, *run.cursor.handoffs.chain}
    members = [
        agent
        for agent in run.team
        if agent.name not in taken and not agent.traits.is_router and agent.scope != "system"
    ]
    matcher, session = CapabilityMatcher.of(members), run.session_id
    for agent in members:
        if agent.capabilities:
            matcher.set_status(
                agent.name,
                available=await why_unavailable(run.store, agent, run.context, session) is None,
                load=await sessions_at_work(run.store, agent.name, session),
            )
    able = matcher.find(required, min_score=0, available_only=True)
    best = next((match for match in able if not match.missing), None)
    if best is None:
        raise HandoffRefused(
            "CAPABILITY_MISSING",
            f"no other available agent of the team has all of {', '.join(required)}; continue "
            "without it, or add such an agent: `ekiden agents match` finds agents by capability",
        )
    return run.find_agent(best.agent)
