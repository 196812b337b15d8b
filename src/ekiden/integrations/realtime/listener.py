"""Handles the events of a realtime model: history, tool calls and handoffs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import AgentHookContext, ToolContext
from ekiden.core.conversation.model import function_call, function_output
from ekiden.core.current_agent import acting_as
from ekiden.core.errors import EkidenError, HandoffRefused, UserError
from ekiden.core.guardrails import GuardrailError
from ekiden.core.handoffs import A_PROGRAM, Handoff
from ekiden.core.privacy.masking import cover
from ekiden.core.started_by_agents import pass_on_agents
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.values import new_id
from ekiden.handoff.offers import default_handoff, enabled_entries
from ekiden.handoff.requests import edge_between
from ekiden.integrations.realtime.agent import (
    AgentOffer,
    Entry,
    RealtimeAgent,
    make_offer,
)
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
    RealtimeHandoffEvent,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeRawModelEvent,
    RealtimeToolEnd,
    RealtimeToolStart,
    call_hooks,
)
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
from ekiden.tools import ToolResult, invoke, output_text

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
            "update_agent() was called while a handoff of the same session is checked: "
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
    """The text of an exception. The class name is added unless it is an error of Ekiden."""
    text = cover(str(exc) if isinstance(exc, EkidenError) else f"{type(exc).__name__}: {exc}")
    text = text.rstrip(": ")
    return text if len(text) <= _ERROR_LIMIT else f"{text[:_ERROR_LIMIT]} …"


_MOST_TURNS = 16
"""The maximum number of open turns, for a provider that does not end its turns."""


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
        return next(iter(await enabled_entries([entry], turn.offer.agent, live.context)), None)
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
    pass_on_agents()
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

    def interrupt(self) -> tuple[str, int] | None:
        """Drop the audio of current answers that is still on its way, and stop the playback like
        `silence`."""
        for turn in self._turns.values():
            turn.is_interrupted = True
        return self.silence()

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
                if not self._live.responses.failed(error):
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
        turn = self._turns.get(event.response_id)
        if turn is not None and turn.is_interrupted:
            return
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
            await _decline(live, turn)  # Before the next answer is requested.
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
