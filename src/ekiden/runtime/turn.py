"""One turn of an agent that thinks with a model."""

from __future__ import annotations

from typing import Any

from ekiden.core.context import AgentHookContext
from ekiden.core.faults import fault_point
from ekiden.core.handoff import Handoff
from ekiden.core.items import Item, is_message, text_of
from ekiden.core.model import ModelResponse
from ekiden.core.outcomes import Done, Outcome
from ekiden.runtime.act import act
from ekiden.runtime.ask import ask_model
from ekiden.runtime.calls import both
from ekiden.runtime.closing import answered
from ekiden.runtime.findings import tell_findings
from ekiden.runtime.finish import finish
from ekiden.runtime.limits import has_triggers
from ekiden.runtime.offer import refresh_offer
from ekiden.runtime.output import final_outcome
from ekiden.runtime.rollback import confirm_handoffs
from ekiden.runtime.state import RunState


async def think(run: RunState) -> None:
    """Ask the model, and do what it says as far as that needs no step of its own."""
    if not run.cursor.started:
        await start_agent(run)
    began = run.config.clock.monotonic()
    key = run.step_key("m")
    if run.cursor.checks == 1:
        from ekiden.runtime.input_guardrails import ask_beside

        response = await ask_beside(run, ask_model)
    else:
        response = await ask_model(run)
    duration_us = int((run.config.clock.monotonic() - began) * 1e6)
    output = tuple(response.output)
    calls = [item for item in output if item.get("type") == "function_call"]
    details, outcome = call_details(response), None
    if calls:
        if run.cursor.found:
            details = tell_findings(run, details)
    elif run.agent.output_guardrails or run.config.output_guardrails:
        from ekiden.runtime.output_guardrails import judge

        verdict = await judge(run, response, details, duration_us)
        if verdict.outcome is None:
            return
        outcome = verdict.outcome
        details = tell_findings(run, details, verdict.findings)
    else:
        outcome = final_outcome(response.output, run.agent.output_type)
        if run.cursor.found:
            details = tell_findings(run, details)
    if run.unshown:
        run.show_answer()
    if len(output) > len(calls) and any(is_message(item) and text_of(item) for item in output):
        run.cursor.work += 1
    run.record(
        "llm_call",
        items=output,
        step=key,
        duration_us=duration_us,
        details=details,
    )
    await conclude(run, calls, outcome)


async def conclude(run: RunState, calls: list[Item], outcome: Outcome | None) -> None:
    """Store the answer that was just recorded, and do what it asks for.

    With it the agent has answered: a handoff that led to it stands, unless that waits for the end
    of the agent's work. Before the run ends, triggers may have reason to hand over.
    """
    cursor = run.cursor
    cursor.calls = run.next_seq - 1
    is_confirmed = bool(cursor.open) and (outcome is not None or not cursor.open[-1].until_result)
    if is_confirmed:
        confirm_handoffs(run)
    if outcome is not None:
        cursor.turn += 1
        if isinstance(outcome, Done) and await _handed_on(run):
            return
        await finish(run, outcome)
        return
    cursor.phase = "act"
    if not _is_plain_transfer(run, calls):
        fault_point("turn.answer.before_commit")
        await run.commit()
        fault_point("turn.answer.after_commit")
        if is_confirmed and run.is_timed:
            return  # The time of the handoff is not that of the calls: they are the next step.
    await act(run, calls)


async def _handed_on(run: RunState) -> bool:
    """Whether a trigger hands the answered conversation on; then it goes on there."""
    if not has_triggers(run.agent):
        return False
    from ekiden.runtime.triggers import look_at_triggers

    run.cursor.phase = "answered"
    return await look_at_triggers(run)


async def settle_answer(run: RunState) -> None:
    """Go on after an answer that is stored: hand over if a trigger has reason to, or end the run.

    The outcome is read from the answer; of an agent that is code that is its text.
    """
    if await _handed_on(run):
        return
    said = [item for event in run.events if event.seq == run.cursor.calls for item in event.items]
    await finish(run, final_outcome(said, run.agent.output_type))


async def resume_acting(run: RunState, calls: list[Item]) -> None:
    """Go on with calls that a predecessor stored and did not finish."""
    await refresh_offer(run)
    await act(run, calls, answered=answered(run))


async def start_agent(run: RunState) -> None:
    """Record that the active agent begins, and tell the hooks."""
    agent, hooks = run.agent, run.hooks
    if hooks is not None or agent.hooks is not None:
        context: AgentHookContext[Any] = AgentHookContext(run.context, turn_input=list(run.visible))
        await both(
            None if hooks is None else hooks.on_agent_start(context, agent),
            None if agent.hooks is None else agent.hooks.on_start(context, agent),
        )
    run.cursor.started = True
    run.record("agent_start")
    if run.live:
        await run.commit()


def call_details(response: ModelResponse) -> dict[str, Any] | None:
    """What the event of a model call tells of it."""
    details: dict[str, Any] = {}
    if response.model is not None:
        details["model"] = response.model
    if response.response_id is not None:
        details["response_id"] = response.response_id
    if response.attempt > 1:
        details["attempt"] = response.attempt
    usage = response.usage.to_json()
    if usage:
        details["usage"] = usage
    return details or None


def _is_plain_transfer(run: RunState, calls: list[Item]) -> bool:
    """Whether the turn is one transfer during which nothing of the user's runs.

    Then the answer and the transfer are stored together: there is nothing between them that could
    be lost or done twice.
    """
    if len(calls) != 1 or run.hooks is not None or run.agent.hooks is not None:
        return False
    offer = run.offered.get(calls[0]["name"])
    return (
        isinstance(offer, Handoff)
        and not offer.has_callback
        and offer.input_filter is None
        and run.config.handoff_input_filter is None
        and offer.agent is not None
        and offer.agent.accepts is None
        and not callable(offer.agent.available)
        and offer.terms.confirm is None
        and not run.agent.handoff_guardrails
        and not run.config.handoff_guardrails
    )
