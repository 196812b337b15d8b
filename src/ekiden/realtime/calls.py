"""Answering the calls of a turn: tools first, then at most one transfer."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.acting import acting_as
from ekiden.core.context import ToolContext
from ekiden.core.guardrail_errors import GuardrailError
from ekiden.core.handoff import Handoff
from ekiden.core.items import function_call, function_output
from ekiden.core.tool import FunctionTool
from ekiden.realtime.enabling import is_enabled
from ekiden.realtime.events import RealtimeToolEnd, RealtimeToolStart
from ekiden.realtime.live import Live, Turn, tell_hooks
from ekiden.realtime.model import RealtimeModelSendToolOutput
from ekiden.realtime.model_events import RealtimeModelToolCallEvent
from ekiden.realtime.offer import Entry
from ekiden.realtime.transfer import describe, greet, see_through, transfer
from ekiden.tools import ToolResult, invoke, output_text


async def act(live: Live, turn: Turn) -> None:
    """Answer every call of the turn, then have the model go on.

    Outputs are sent in the order of the calls; that of a transfer comes last, after the model was
    told to be the next agent. What gets out of here ends the session: errors of the connection and
    of the store, and the `GuardrailError` of a guardrail that ends the run or cannot decide.
    """
    calls = list(turn.calls.values())
    entries = [await _entry(live, turn, call) for call in calls]
    chosen = next((i for i, entry in enumerate(entries) if isinstance(entry, Handoff)), None)
    async with asyncio.TaskGroup() as group:
        results = [
            group.create_task(_output(live, turn, call, entry, place))
            for place, (call, entry) in enumerate(zip(calls, entries, strict=True))
            if place != chosen
        ]
    sent = [call for place, call in enumerate(calls) if place != chosen]
    for call, result in zip(sent, results, strict=True):
        await live.connection.send(
            RealtimeModelSendToolOutput(tool_call=call, output=result.result())
        )
    if chosen is None:
        await live.answer()
        return
    handoff = entries[chosen]
    assert isinstance(handoff, Handoff)
    requested = [entry.tool_name for entry in entries if isinstance(entry, Handoff)]
    waiting = await transfer(live, turn, handoff, calls[chosen], requested)
    await live.gate.request()
    if live.agent is not turn.offer.agent:
        await greet(live, live.agent)
    if waiting is not None:
        await see_through(live, waiting)


async def decline(live: Live, turn: Turn) -> None:
    """Answer calls of an answer that was stopped: they are not made, and nothing is asked for."""
    for call in turn.calls.values():
        output = "Error: the answer was interrupted, so this call was not made"
        await live.connection.send(RealtimeModelSendToolOutput(tool_call=call, output=output))


async def _entry(live: Live, turn: Turn, call: RealtimeModelToolCallEvent) -> Entry | None:
    """What the call asks for; `None` if that is not, or no longer, offered."""
    entry = turn.offer.entries.get(call.name)
    if entry is None or entry.is_enabled is True:
        return entry
    try:
        return entry if await is_enabled(entry, turn.offer.agent, live.context) else None
    except Exception as exc:
        live.report(exc)
        return None


async def _output(
    live: Live, turn: Turn, call: RealtimeModelToolCallEvent, entry: Entry | None, place: int
) -> str:
    if isinstance(entry, Handoff):
        problem = "only one handoff can be made in a turn; this one was not made"
        return await _recorded(live, turn, call, f"Error: {problem}", error=problem)
    if entry is None:
        names = ", ".join(turn.offer.entries) or "none"
        return f"Error: there is no tool called {call.name!r:.100}; there are: {names}"
    if place >= live.config.max_calls:
        return f"Error: only {live.config.max_calls} calls are made in one turn"
    return await _run_tool(live, turn, call, entry)


async def _run_tool(
    live: Live, turn: Turn, call: RealtimeModelToolCallEvent, tool: FunctionTool
) -> str:
    agent = turn.offer.agent
    async with live.handing:
        pass  # A handoff that is refused restores variables: no tool sets any meanwhile.
    live.emit(RealtimeToolStart, agent=agent, tool=tool, arguments=call.arguments)
    context = _tool_context(live, agent, call)
    try:
        with acting_as(agent.name):
            result = await _invoked(live, agent, tool, context)
    except GuardrailError:
        raise
    except Exception as exc:
        live.report(exc)
        told = f"Error: the tool failed with {describe(exc)}"
        result = ToolResult(output=told, value=None, error=describe(exc))
    output = output_text(result.output)
    shown = result.value if result.error is None else output
    live.emit(RealtimeToolEnd, agent=agent, tool=tool, arguments=call.arguments, output=shown)
    return await _recorded(live, turn, call, output, error=result.error)


async def _recorded(
    live: Live, turn: Turn, call: RealtimeModelToolCallEvent, output: str, *, error: str | None
) -> str:
    items = (
        function_call(call.call_id, call.name, call.arguments),
        function_output(call.call_id, output),
    )
    await live.record.tool_call(turn.offer.agent.name, call.name, items, error=error)
    return output


async def _invoked(
    live: Live, agent: Any, tool: FunctionTool, context: ToolContext[Any]
) -> ToolResult:
    await tell_hooks(
        live,
        agent,
        lambda hooks: hooks.on_tool_start(context, agent, tool),
        lambda hooks: hooks.on_tool_start(context, agent, tool),
    )
    result = await invoke(tool, context, timeout_s=live.config.tool_timeout_s)
    shown = result.value if result.error is None else result.output
    await tell_hooks(
        live,
        agent,
        lambda hooks: hooks.on_tool_end(context, agent, tool, shown),
        lambda hooks: hooks.on_tool_end(context, agent, tool, shown),
    )
    return result


def _tool_context(live: Live, agent: Any, call: RealtimeModelToolCallEvent) -> ToolContext[Any]:
    base = live.context
    return ToolContext(
        base.context,
        base.usage,
        tool_name=call.name,
        tool_call_id=call.call_id,
        tool_arguments=call.arguments,
        idempotency_key=f"{live.run.session_id}:{call.call_id}",
        agent=agent,
        session_id=base.session_id,
        variables=base.variables,
    )
