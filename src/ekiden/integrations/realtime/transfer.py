"""Handoffs of live sessions. The runtime checks and records them."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import AgentHookContext
from ekiden.core.conversation.model import function_call
from ekiden.core.errors import EkidenError, HandoffRefused, UserError
from ekiden.core.handoffs import A_PROGRAM, Handoff
from ekiden.core.privacy.masking import cover
from ekiden.core.values import new_id
from ekiden.handoff.offers import default_handoff
from ekiden.handoff.requests import edge_between
from ekiden.integrations.realtime.agent import AgentOffer, RealtimeAgent, make_offer
from ekiden.integrations.realtime.items import RealtimeModelToolCallEvent
from ekiden.integrations.realtime.live import Live, LiveTurn, RealtimeHandoffEvent, call_hooks
from ekiden.integrations.realtime.model import RealtimeModelSendMessage, RealtimeModelSendToolOutput
from ekiden.runtime.live_sessions import (
    LiveHandoff,
    hand_over,
    is_decided,
    is_waiting,
    news,
    refuse_at_once,
)
from ekiden.runtime.model_call import prompt_block
from ekiden.runtime.state.attempt import GIVEN_UP, Attempt

_ERROR_LIMIT = 2_000
_WAITING = (
    "The handoff to {} is not made yet: a person must approve it first, and was asked. You have "
    "the conversation until then: go on with it, and do not call this again. You will be told what "
    "was decided."
)

_checked: ContextVar[Attempt | None] = ContextVar("ekiden_live_handoff", default=None)
"""The handoff whose checks call the current code."""


async def transfer(
    live: Live,
    turn: LiveTurn,
    handoff: Handoff[Any, Any],
    call: RealtimeModelToolCallEvent,
    requested: Sequence[str],
) -> Attempt | None:
    """Make the handoff that the model requested, and answer the model's call.

    All checks that may fail come first. If a check fails, the model gets the error, and the source
    keeps the conversation. Otherwise these steps follow: the handoff is stored, the active agent
    changes, the model's settings change, the event is shown, and the call is answered. The caller
    then lets the model continue. If the handoff waits for approval, this function returns the
    handoff, and the source keeps the conversation until `finish_transfer` completes the handoff.
    """
    waiting = None
    attempt = Attempt(
        edge=handoff,
        arguments=call.arguments,
        call=function_call(call.call_id, call.name, call.arguments),
        is_call_stored=False,
        source=turn.offer.agent.name,
        requested=list(requested) if len(requested) > 1 else None,
    )
    async with live.handing_over:
        earlier = live.waiting
        if earlier is not None and earlier.edge is handoff and is_waiting(live.run, earlier):
            output = _WAITING.format(handoff.agent_name)
        elif live.agent is not turn.offer.agent:
            reason = f"agent {live.agent.name!r} has the conversation now"
            await refuse_at_once(live.run, attempt, HandoffRefused("PERMISSION_DENIED", reason))
            output = attempt.answer
        elif await _hand_over(live, attempt) == "waiting":
            live.waiting = waiting = attempt
            output = _WAITING.format(handoff.agent_name)
        else:
            output = attempt.answer
    await live.connection.send(RealtimeModelSendToolOutput(tool_call=call, output=output))
    return waiting


async def finish_transfer(live: Live, attempt: Attempt) -> None:
    """Wait for the approval of a handoff. If it is approved, make the handoff.

    Then send the result to the model, unless another agent has the conversation in the meantime.
    """
    outcome = await _decision(live, attempt)
    if outcome == "made":
        text = f"A person approved the handoff to {live.agent.name}: it is made."
    elif live.agent.name != attempt.source:
        return
    else:
        text = attempt.answer or f"The handoff to {attempt.target_name} was not made: {GIVEN_UP}"
    item_id = new_id("msg")
    live.stored.add(item_id)
    await live.connection.send(RealtimeModelSendMessage(item_id=item_id, role="system", text=text))
    await live.responses.request()
    if outcome == "made":
        await greet(live, live.agent)


async def move(live: Live, agent: RealtimeAgent[Any]) -> None:
    """Hand the conversation to `agent` because a program requested it. The call waits for a
    required approval.

    Raises `HandoffRefused`, or the exceptions of the agents' own functions, if the handoff is not
    made.
    """
    # Code that the checks of a handoff call would wait for this handoff for ever.
    if live.checking is not None and live.checking is _checked.get():
        raise UserError(
            "update_agent() was called by code that is asked about a handoff of the same session: "
            "raise an error there to refuse the handoff, and call it afterwards"
        )
    async with live.handing_over:
        source = live.agent
        attempt = Attempt(edge=default_handoff(agent), by=A_PROGRAM, source=source.name)
        try:
            attempt.edge = edge_between(source, agent.name)
        except HandoffRefused as exc:
            outcome: LiveHandoff | None = await refuse_at_once(live.run, attempt, exc)
        else:
            outcome = await _hand_over(live, attempt)
    if outcome == "waiting":
        outcome = await _decision(live, attempt)
    if outcome != "made":
        raise attempt.failure or HandoffRefused("CANCELLED", GIVEN_UP)
    await greet(live, live.agent)


async def _hand_over(live: Live, attempt: Attempt) -> LiveHandoff:
    """Try the handoff. If it is made, it is stored, and the model has the new setup.

    The caller holds `live.handing_over`.
    """
    run, source = live.run, live.agent
    ready: list[tuple[AgentOffer, str]] = []

    async def prepare(target: Agent[Any], fields: dict[str, Any]) -> None:
        if not isinstance(target, RealtimeAgent):
            raise UserError(
                f"the handoff {attempt.edge.tool_name!r} leads to {type(target).__name__} "
                f"{target.name!r}, not to a RealtimeAgent"
            )
        received = prompt_block(fields, [*run.cursor.handoffs.chain, target.name])
        ready[:] = [(await make_offer(target, live.context, received), received)]

    attempt.prepare = prepare
    live.checking = attempt
    token = _checked.set(attempt)
    try:
        outcome = await hand_over(run, attempt)
    finally:
        _checked.reset(token)
        live.checking = None
    if attempt.failure is not None and not isinstance(attempt.failure, HandoffRefused):
        live.report(attempt.failure)
    if outcome == "made":
        [(offer, live.received)] = ready
        live.waiting = None
        async with live.switching:
            await live.switch(offer)
        live.emit(RealtimeHandoffEvent, from_agent=source, to_agent=offer.agent)
    return outcome


async def _decision(live: Live, attempt: Attempt) -> LiveHandoff | None:
    """The result of a handoff that waits for approval; `None` if the question was cancelled."""
    while True:
        async with live.handing_over:
            if not is_waiting(live.run, attempt):
                return None
            if await is_decided(live.run):
                outcome = await _hand_over(live, attempt)
                if outcome != "waiting":
                    if live.waiting is attempt:
                        live.waiting = None
                    return outcome
        await news(live.run)


async def greet(live: Live, agent: RealtimeAgent[Any]) -> None:
    """Call the start hooks of an agent that gets the conversation. Failures of hooks are reported
    as events."""
    context = AgentHookContext(live.context, turn_input=[])
    try:
        await call_hooks(
            live,
            agent,
            lambda hooks: hooks.on_agent_start(context, agent),
            lambda hooks: hooks.on_start(context, agent),
        )
    except Exception as exc:
        live.report(exc)


def describe(exc: BaseException) -> str:
    """The text of an exception. Ekiden's own errors need no class name."""
    text = cover(str(exc) if isinstance(exc, EkidenError) else f"{type(exc).__name__}: {exc}")
    text = text.rstrip(": ")
    return text if len(text) <= _ERROR_LIMIT else f"{text[:_ERROR_LIMIT]} …"
