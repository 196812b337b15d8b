"""Handing a live conversation over."""

from __future__ import annotations

from typing import Any

from ekiden.core.context import AgentHookContext
from ekiden.core.covering import cover
from ekiden.core.errors import EkidenError, HandoffRefused, ModelBehaviorError, UserError
from ekiden.core.handoff import Handoff
from ekiden.core.handoff_record import RefusalCode
from ekiden.core.items import Item, function_call, function_output
from ekiden.core.jsonio import loads
from ekiden.realtime.agent import RealtimeAgent
from ekiden.realtime.events import RealtimeHandoffEvent
from ekiden.realtime.live import Live, Turn, tell_hooks
from ekiden.realtime.model import RealtimeModelSendToolOutput
from ekiden.realtime.model_events import RealtimeModelToolCallEvent
from ekiden.realtime.offer import Offer, make_offer

_MOVES = ("initiated", "validating", "transferring", "completed")
_NOT_MADE = ("initiated", "validating", "failed")
_TEXT_LIMIT = 20_000
"""No single text that a model passes along may be longer."""
_ERROR_LIMIT = 2_000


async def transfer(
    live: Live, turn: Turn, handoff: Handoff[Any, Any], call: RealtimeModelToolCallEvent
) -> None:
    """Make the handoff that the model asked for, and answer its call.

    Everything that may fail comes first: a failure is told to the model, and the source keeps the
    conversation. Then, in this order: it is stored, the active agent changes, the model's settings
    do, the event is shown, the call is answered. The caller has the model go on.
    """
    source = turn.offer.agent
    try:
        _check(live, source)
        told = _passed_on(call.arguments)
        target = await _target(live, handoff, call.arguments)
        await _tell_hooks(live, source, target)
        output = handoff.get_transfer_message(target)
        received = live.block_for(source.name, told)
        offer = await make_offer(target, live.context, received)
        items = _items(call, output)
    except Exception as exc:
        if not isinstance(exc, HandoffRefused):
            live.report(exc)
        output = await refuse(live, turn, handoff, call, describe(exc), code=_code(exc))
    else:
        async with live.switching:
            try:
                _check(live, source)  # the agent's own functions took their time
            except HandoffRefused as exc:
                output = await refuse(live, turn, handoff, call, describe(exc), code=_code(exc))
            else:
                await move(live, offer, received, items=items, reason=told.get("reason"))
    await live.connection.send(RealtimeModelSendToolOutput(tool_call=call, output=output))


async def move(
    live: Live,
    offer: Offer,
    received: str | None,
    *,
    items: tuple[Item, ...] = (),
    reason: str | None = None,
) -> None:
    """Give the conversation to the agent of `offer`: stored first, then true, then told.

    The caller has `live.switching`.
    """
    source, target = live.agent, offer.agent
    if live.record is not None:
        await live.record.handoff(
            source.name, target.name, moves=_MOVES, items=items, reason=reason
        )
    live.received = received
    live.chain.append(source.name)
    live.handoffs += 1
    await live.switch(offer)
    live.emit(RealtimeHandoffEvent, from_agent=source, to_agent=target)


async def greet(live: Live, agent: RealtimeAgent[Any]) -> None:
    """The hooks that an agent which gets the conversation is met with; failures are reported."""
    context = AgentHookContext(live.context, turn_input=[])
    try:
        await tell_hooks(
            live,
            agent,
            lambda hooks: hooks.on_agent_start(context, agent),
            lambda hooks: hooks.on_start(context, agent),
        )
    except Exception as exc:
        live.report(exc)


async def refuse(
    live: Live,
    turn: Turn,
    handoff: Handoff[Any, Any],
    call: RealtimeModelToolCallEvent,
    problem: str,
    *,
    code: RefusalCode = "INVALID_INPUT",
) -> str:
    """Record that the handoff was not made; gives what the model is told."""
    told = f"Error: the handoff to {handoff.agent_name} was not made: {problem}"
    if live.record is not None:
        await live.record.handoff(
            turn.offer.agent.name,
            handoff.agent_name,
            moves=_NOT_MADE,
            items=_items(call, told),
            error=problem,
            code=code,
        )
    return told


def _code(exc: Exception) -> RefusalCode:
    if isinstance(exc, HandoffRefused):
        code: RefusalCode = exc.refusal
        return code
    return "INVALID_INPUT" if isinstance(exc, ModelBehaviorError) else "SOURCE_FAILED"


def describe(exc: BaseException) -> str:
    """An exception for people and models: an error of ours says it all in its message."""
    text = cover(str(exc) if isinstance(exc, EkidenError) else f"{type(exc).__name__}: {exc}")
    text = text.rstrip(": ")
    return text if len(text) <= _ERROR_LIMIT else f"{text[:_ERROR_LIMIT]} …"


def _check(live: Live, source: RealtimeAgent[Any]) -> None:
    if live.agent is not source:
        raise HandoffRefused(
            "PERMISSION_DENIED", f"agent {live.agent.name!r} has the conversation now"
        )
    most = live.config.max_handoffs
    if live.handoffs >= most:
        raise HandoffRefused(
            "MAX_DEPTH_EXCEEDED",
            f"{most} handoffs were made in a row without a word of the person: answer them first",
        )


async def _target(live: Live, handoff: Handoff[Any, Any], arguments: str) -> RealtimeAgent[Any]:
    target = await handoff.on_invoke_handoff(live.context, arguments)
    if not isinstance(target, RealtimeAgent):
        raise UserError(
            f"the handoff {handoff.tool_name!r} gave {type(target).__name__}, not a RealtimeAgent"
        )
    if target is live.agent:
        raise HandoffRefused(
            "CIRCULAR_HANDOFF", f"agent {target.name!r} has the conversation already: answer"
        )
    return target


async def _tell_hooks(live: Live, source: RealtimeAgent[Any], target: RealtimeAgent[Any]) -> None:
    context = live.context
    await tell_hooks(
        live,
        source,
        lambda hooks: hooks.on_handoff(context, source, target),
        lambda hooks: hooks.on_handoff(context, target, source),
    )


def _passed_on(arguments: str) -> dict[str, Any]:
    """The reason, summary and context among the arguments, as far as they are texts.

    Arguments that are no JSON are for the handoff's own check to complain about: one without an
    input takes anything.
    """
    try:
        given = loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(given, dict):
        return {}
    names = ("reason", "summary", "context")
    texts = {name: given.get(name) for name in names}
    return {name: text[:_TEXT_LIMIT] for name, text in texts.items() if isinstance(text, str)}


def _items(call: RealtimeModelToolCallEvent, output: str) -> tuple[Item, ...]:
    return (
        function_call(call.call_id, call.name, call.arguments),
        function_output(call.call_id, output),
    )
