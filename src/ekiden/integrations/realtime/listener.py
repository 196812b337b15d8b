"""Handles the events of a realtime model: history, tool calls and handoffs."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import function_call, function_output
from ekiden.core.current_agent import acting_as
from ekiden.core.guardrails import GuardrailError
from ekiden.core.handoffs import Handoff
from ekiden.core.tools.tool import FunctionTool
from ekiden.integrations.realtime.agent import Entry, is_enabled
from ekiden.integrations.realtime.items import (
    History,
    RealtimeItem,
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelSpeechStartedEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    stored_item,
)
from ekiden.integrations.realtime.live import (
    Live,
    LiveTurn,
    RealtimeAgentEndEvent,
    RealtimeAgentStartEvent,
    RealtimeAudio,
    RealtimeAudioEnd,
    RealtimeAudioInterrupted,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeRawModelEvent,
    RealtimeToolEnd,
    RealtimeToolStart,
    call_hooks,
)
from ekiden.integrations.realtime.model import RealtimeModelSendToolOutput
from ekiden.integrations.realtime.transfer import describe, finish_transfer, greet, transfer
from ekiden.tools import ToolResult, invoke, output_text

_MOST_TURNS = 16
"""The maximum number of open turns, for a provider that does not end its turns."""

_HARMLESS = "response_cancel_not_active"
"""The error for an answer that ended just before it was interrupted."""


async def _act(live: Live, turn: LiveTurn) -> None:
    """Answer every call of the turn, then let the model continue.

    Outputs are sent in the order of the calls. The output of a handoff is last, after the model has
    the settings of the next agent. An exception ends the session: a failure of the connection or
    the store, or a `GuardrailError` of a guardrail that ends the run or fails.
    """
    calls = list(turn.calls.values())
    entries = [await _entry(live, turn, call) for call in calls]
    chosen = next((i for i, entry in enumerate(entries) if isinstance(entry, Handoff)), None)
    async with asyncio.TaskGroup() as group:
        results = [
            group.create_task(_output(live, turn, call, entry, index))
            for index, (call, entry) in enumerate(zip(calls, entries, strict=True))
            if index != chosen
        ]
    answered = [call for index, call in enumerate(calls) if index != chosen]
    for call, result in zip(answered, results, strict=True):
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
    await live.responses.request()
    if live.agent is not turn.offer.agent:
        await greet(live, live.agent)
    if waiting is not None:
        await finish_transfer(live, waiting)


async def _decline(live: Live, turn: LiveTurn) -> None:
    """Answer the calls of an interrupted turn without executing them."""
    for call in turn.calls.values():
        output = "Error: the answer was interrupted, so this call was not made"
        await live.connection.send(RealtimeModelSendToolOutput(tool_call=call, output=output))


async def _entry(live: Live, turn: LiveTurn, call: RealtimeModelToolCallEvent) -> Entry | None:
    """The called tool or handoff; `None` if it is not offered, or no longer enabled."""
    entry = turn.offer.entries.get(call.name)
    if entry is None or entry.is_enabled is True:
        return entry
    try:
        return entry if await is_enabled(entry, turn.offer.agent, live.context) else None
    except Exception as exc:
        live.report(exc)
        return None


async def _output(
    live: Live, turn: LiveTurn, call: RealtimeModelToolCallEvent, entry: Entry | None, index: int
) -> str:
    """The output of a call other than the handoff that is made."""
    if isinstance(entry, Handoff):
        problem = "only one handoff can be made in a turn; this one was not made"
        return await _record(live, turn, call, f"Error: {problem}", error=problem)
    if entry is None:
        names = ", ".join(turn.offer.entries) or "none"
        return f"Error: there is no tool called {call.name!r:.100}; there are: {names}"
    if index >= live.config.max_calls:
        return f"Error: only {live.config.max_calls} calls are made in one turn"
    return await _run_tool(live, turn, call, entry)


async def _run_tool(
    live: Live, turn: LiveTurn, call: RealtimeModelToolCallEvent, tool: FunctionTool
) -> str:
    agent = turn.offer.agent
    async with live.handing_over:
        pass  # A refused handoff restores the variables, so no tool may set one meanwhile.
    live.emit(RealtimeToolStart, agent=agent, tool=tool, arguments=call.arguments)
    context = _tool_context(live, agent, call)
    try:
        with acting_as(agent.name):
            result = await _invoke(live, agent, tool, context)
    except GuardrailError:
        raise
    except Exception as exc:
        live.report(exc)
        problem = describe(exc)
        output = f"Error: the tool failed with {problem}"
        result = ToolResult(output=output, value=None, error=problem)
    output = output_text(result.output)
    shown = result.value if result.error is None else output
    live.emit(RealtimeToolEnd, agent=agent, tool=tool, arguments=call.arguments, output=shown)
    return await _record(live, turn, call, output, error=result.error)


async def _record(
    live: Live, turn: LiveTurn, call: RealtimeModelToolCallEvent, output: str, *, error: str | None
) -> str:
    items = (
        function_call(call.call_id, call.name, call.arguments),
        function_output(call.call_id, output),
    )
    await live.record.tool_call(turn.offer.agent.name, call.name, items, error=error)
    return output


async def _invoke(
    live: Live, agent: Any, tool: FunctionTool, context: ToolContext[Any]
) -> ToolResult:
    await call_hooks(
        live,
        agent,
        lambda hooks: hooks.on_tool_start(context, agent, tool),
        lambda hooks: hooks.on_tool_start(context, agent, tool),
    )
    result = await invoke(tool, context, timeout_s=live.config.tool_timeout_s)
    shown = result.value if result.error is None else result.output
    await call_hooks(
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


class EndOfConversation(Exception):
    """The provider closed the connection properly."""


class Listener:
    """Reads the events of the model and handles them."""

    def __init__(self, live: Live, history: History) -> None:
        self._live = live
        self._history = history
        self._turns: dict[str, LiveTurn] = {}
        self._speaking: tuple[str, int] | None = None

    async def listen(self, group: asyncio.TaskGroup) -> None:
        """Read until the conversation ends, then raise `EndOfConversation`.

        A task in `group` answers the calls of a turn, so that this method continues to read.
        """
        live = self._live
        async for event in live.connection.events():
            await live.events.room()
            live.emit(RealtimeRawModelEvent, data=event)
            await self._handle(event, group)
        raise EndOfConversation

    def silence(self) -> tuple[str, int] | None:
        """Stop the playback, and return the item and the part that were being played."""
        speaking, self._speaking = self._speaking, None
        if speaking is not None:
            item_id, index = speaking
            self._live.emit(RealtimeAudioInterrupted, item_id=item_id, content_index=index)
        return speaking

    async def _handle(self, event: RealtimeModelEvent, group: asyncio.TaskGroup) -> None:
        match event:
            case RealtimeModelAudioEvent():
                self._audio(event)
            case RealtimeModelAudioDoneEvent(item_id=item_id, content_index=index):
                self._live.emit(RealtimeAudioEnd, item_id=item_id, content_index=index)
            case RealtimeModelTurnStartedEvent():
                self._live.responses.started()
                turn = self._turn(event.response_id)
                self._live.emit(RealtimeAgentStartEvent, agent=turn.offer.agent)
            case RealtimeModelToolCallEvent():
                self._turn(event.response_id).calls.setdefault(event.call_id, event)
            case RealtimeModelTurnEndedEvent():
                await self._turn_ended(event, group)
            case RealtimeModelItemUpdatedEvent(item=item):
                await self._item(item)
            case RealtimeModelInputAudioTranscriptionCompletedEvent():
                await self._transcript(event)
            case RealtimeModelItemDeletedEvent(item_id=item_id):
                if self._history.remove(item_id):
                    self._live.emit(RealtimeHistoryUpdated, history=self._history.all())
            case RealtimeModelSpeechStartedEvent():
                self._live.heard()
                self.silence()
            case RealtimeModelAudioInterruptedEvent(item_id=item_id, content_index=index):
                self._speaking = (item_id, index)
                self.silence()
            case RealtimeModelErrorEvent(error=error):
                is_handled = self._live.responses.failed(error)
                if not is_handled and getattr(error, "server_code", None) != _HARMLESS:
                    self._live.report(error)
            case _:
                pass

    def _turn(self, response_id: str) -> LiveTurn:
        turn = self._turns.get(response_id)
        if turn is None:
            if len(self._turns) >= _MOST_TURNS:
                del self._turns[next(iter(self._turns))]
            turn = self._turns[response_id] = LiveTurn(offer=self._live.offer)
        return turn

    def _audio(self, event: RealtimeModelAudioEvent) -> None:
        self._speaking = (event.item_id, event.content_index)
        self._live.emit(
            RealtimeAudio, audio=event, item_id=event.item_id, content_index=event.content_index
        )

    async def _turn_ended(
        self, event: RealtimeModelTurnEndedEvent, group: asyncio.TaskGroup
    ) -> None:
        live = self._live
        live.context.usage.add(event.usage)
        turn = self._turns.pop(event.response_id, None) or LiveTurn(offer=live.offer)
        live.emit(RealtimeAgentEndEvent, agent=turn.offer.agent)
        acts = event.status == "completed" and bool(turn.calls)
        if acts:
            group.create_task(_act(live, turn))
        elif turn.calls:
            group.create_task(_decline(live, turn))
        elif event.status == "completed":
            group.create_task(self._call_end_hooks(turn))
        await live.responses.ended(continues=acts)

    async def _call_end_hooks(self, turn: LiveTurn) -> None:
        """Call the hooks for a complete answer; failures are reported."""
        live, agent, text = self._live, turn.offer.agent, self._history.last_said()
        try:
            await call_hooks(
                live,
                agent,
                lambda hooks: hooks.on_agent_end(live.context, agent, text),
                lambda hooks: hooks.on_end(live.context, agent, text),
            )
        except Exception as exc:
            live.report(exc)

    async def _item(self, item: RealtimeItem) -> None:
        kept, is_new, is_changed = self._history.put(item)
        if is_new:
            if kept.role == "user":
                self._live.heard()
            self._live.emit(RealtimeHistoryAdded, item=kept)
        elif is_changed:
            self._live.emit(RealtimeHistoryUpdated, history=self._history.all())
        await self._store(kept)

    async def _transcript(self, event: RealtimeModelInputAudioTranscriptionCompletedEvent) -> None:
        item, is_new = self._history.set_text(event.item_id, event.transcript)
        if is_new:
            self._live.emit(RealtimeHistoryAdded, item=item)
        else:
            self._live.emit(RealtimeHistoryUpdated, history=self._history.all())
        await self._store(item)

    async def _store(self, item: RealtimeItem) -> None:
        """Store a message once, when its text is complete."""
        live = self._live
        if item.type == "message" and item.is_final and item.item_id not in live.stored:
            live.stored.add(item.item_id)
            await live.record.message(stored_item(item))
