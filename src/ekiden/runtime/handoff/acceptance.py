"""Acceptance checks of a handoff: conditions, people and the target itself."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import function_call
from ekiden.core.errors import HandoffRefused, UserError
from ekiden.core.faults import fault_point
from ekiden.core.handoff_terms import Decline
from ekiden.core.tool import FunctionTool
from ekiden.handoff.validation import check_capabilities
from ekiden.runtime.conversation import check_condition
from ekiden.runtime.handoff.brought import held_back
from ekiden.runtime.state.attempt import Attempt, announce
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.state import RunState


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
