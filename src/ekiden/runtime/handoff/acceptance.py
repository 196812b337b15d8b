"""Before a handoff is made: its target, what it brings along, and who has to accept it."""

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
from ekiden.core.handoffs.request import Decline
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import BEST
from ekiden.handoff.lifecycle import check_capabilities, check_depth, not_found, unavailable
from ekiden.runtime.conversation import check_condition
from ekiden.runtime.state.attempt import Attempt, announce
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor import USER
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.variables import VariablesNow
from ekiden.storage.base import SessionFilter, Store


@dataclass(slots=True, eq=False)
class Before:
    """What of a run a handoff changes that is not made yet."""

    variables: VariablesNow
    published: Sequence[str]
    chain: list[str]
    work: int

    @classmethod
    def of(cls, run: RunState) -> Before:
        """How it stands now."""
        cursor = run.cursor
        return cls(
            run.variables.now(),
            cursor.triggers.published,
            cursor.handoffs.chain.copy(),
            cursor.handoffs.work,
        )

    def restore(self, run: RunState) -> None:
        """Restore the state, as if there had been no attempt."""
        if run.variables.now() != self.variables:
            run.variables.go_back(self.variables)
        cursor = run.cursor
        cursor.triggers.published, cursor.handoffs.chain, cursor.handoffs.work = (
            self.published,
            self.chain,
            self.work,
        )


@contextmanager
def brought(run: RunState, attempt: Attempt, before: Before) -> Iterator[None]:
    """During the body everybody who is asked sees what the handoff brings.

    Of its items nothing is recorded; variables and the chain stay as they are afterwards.
    """
    brings = attempt.brings
    attempt.before = before.variables
    for name, value in brings.variables.items():
        run.context.set(name, value)
    if brings.chain:
        run.cursor.handoffs.chain = joined_chain(brings.chain, before.chain)
    with run.bringing(brings.items, as_history=run.before is not None):
        yield


@contextmanager
def held_back(run: RunState, attempt: Attempt) -> Iterator[None]:
    """During the body, which may commit, variables are as they were: they change with the handoff,
    or not at all."""
    if attempt.before is None:
        yield
        return
    now = run.variables.now()
    run.variables.go_back(attempt.before)
    try:
        yield
    finally:
        run.variables.go_back(now)


def record_brought(run: RunState, attempt: Attempt) -> None:
    """Record what the handoff brings; the caller commits it."""
    items = attempt.brings.items
    if items or attempt.brings.variables:
        details = {"given": attempt.id}
        run.record("message", items=items, step=run.step_key("given"), details=details)
    if run.before is not None:
        run.history_length = len(run.visible)
    run.call_ids.update(call_ids(items))


def joined_chain(given: Sequence[str], chain: Sequence[str]) -> list[str]:
    """The chain, preceded by earlier agents of the task; each appears at least as often as in
    either of the two."""
    missing = Counter(given) - Counter(chain)
    earlier = []
    for name in given:
        if name != USER and missing[name] > 0:
            missing[name] -= 1
            earlier.append(name)
    return [USER, *earlier, *chain[1:]]


async def check_acceptance(
    run: RunState, attempt: Attempt, target: Agent[Any], words: dict[str, Any]
) -> None:
    """`HandoffRefused` unless capabilities, condition, person and target all agree."""
    terms = attempt.edge.terms
    check_capabilities(target, (*terms.capabilities, *attempt.capabilities))
    if attempt.is_conditional or attempt.condition:
        _check_conditions(run, attempt)
        fault_point("handoff.condition.after_check")
    if terms.confirm is not None and attempt.by.kind != "person":
        await _ask_person(run, attempt, words)
    if target.accepts is not None:
        await _offer(run, attempt, target, words)


def _check_conditions(run: RunState, attempt: Attempt) -> None:
    edge_condition = attempt.edge.terms.condition if attempt.is_conditional else None
    texts = [text for text in (edge_condition, attempt.condition) if text]
    if not texts:
        raise HandoffRefused(
            "CONDITIONS_NOT_MET", "the handoff has the policy 'conditional' and no `condition`"
        )
    for text in texts:
        check_condition(run, text)


async def _ask_person(run: RunState, attempt: Attempt, words: dict[str, Any]) -> None:
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
            announce(run, attempt, words)
            if not isinstance(run.config.approver, str | None):
                # Somebody is asked now: until they answer, the handoff is on record.
                await run.commit()
        fault_point("handoff.confirmation.before_call")
        # The answer is stored before the handoff is made: whoever goes on after a crash finds the
        # handoff on record, and the answer, if it is the same handoff.
        decision = await ask_first(run, as_tool, call, f".{key}")
    fault_point("handoff.confirmation.after_commit")
    if not decision.approved:
        raise HandoffRefused("NOT_APPROVED", decision.refusal().error or "a person said no")
    if decision.arguments is not None:
        attempt.arguments = decision.arguments


async def _never(context: Any, arguments: str) -> Any:
    raise AssertionError("a handoff is not called like a tool")


async def _offer(
    run: RunState, attempt: Attempt, target: Agent[Any], words: dict[str, Any]
) -> None:
    """Let the target look at the task before anything is touched."""
    assert target.accepts is not None
    fault_point("handoff.offer.before_call")
    answer = await settled(target.accepts(run.context, attempt.as_request(run, target, words)))
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
        if agent.name not in taken and not agent.traits.is_router and agent.scope != "system"
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
            f"no other available agent of the team has all of {', '.join(required)}; continue "
            "without it, or add such an agent: `ekiden agents match` finds agents by capability",
        )
    return run.find_agent(best.agent)
