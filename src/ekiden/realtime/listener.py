"""What comes of the things that the model tells."""

from __future__ import annotations

import asyncio

from ekiden.realtime.calls import act, decline
from ekiden.realtime.events import (
    RealtimeAgentEndEvent,
    RealtimeAgentStartEvent,
    RealtimeAudio,
    RealtimeAudioEnd,
    RealtimeAudioInterrupted,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeRawModelEvent,
)
from ekiden.realtime.history import History
from ekiden.realtime.items import RealtimeItem, stored_item
from ekiden.realtime.live import Live, Turn, tell_hooks
from ekiden.realtime.model_events import (
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
)

_MOST_TURNS = 16
"""Turns that may be open at once; a provider that never ends them does not fill the memory."""

_HARMLESS = "response_cancel_not_active"
"""The answer was over just before it was interrupted."""


class EndOfConversation(Exception):
    """The other side hung up properly."""


class Listener:
    """Reads what the model tells and does what follows from it."""

    def __init__(self, live: Live, history: History) -> None:
        self._live = live
        self._history = history
        self._turns: dict[str, Turn] = {}
        self._speaking: tuple[str, int] | None = None

    async def listen(self, group: asyncio.TaskGroup) -> None:
        """Read until the conversation ends, then raise `EndOfConversation`.

        The calls of a turn are answered by a task in `group`, so that reading goes on.
        """
        live = self._live
        async for event in live.connection.events():
            await live.events.room()
            live.emit(RealtimeRawModelEvent, data=event)
            await self._on(event, group)
        raise EndOfConversation

    def silence(self) -> tuple[str, int] | None:
        """Nothing more is to be played; gives what was being said, by item and part."""
        speaking, self._speaking = self._speaking, None
        if speaking is not None:
            item_id, index = speaking
            self._live.emit(RealtimeAudioInterrupted, item_id=item_id, content_index=index)
        return speaking

    async def _on(self, event: RealtimeModelEvent, group: asyncio.TaskGroup) -> None:
        match event:
            case RealtimeModelAudioEvent():
                self._audio(event)
            case RealtimeModelAudioDoneEvent(item_id=item_id, content_index=index):
                self._live.emit(RealtimeAudioEnd, item_id=item_id, content_index=index)
            case RealtimeModelTurnStartedEvent():
                self._live.gate.started()
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
                is_known = self._live.gate.failed(error)
                if not is_known and getattr(error, "server_code", None) != _HARMLESS:
                    self._live.report(error)
            case _:
                pass

    def _turn(self, response_id: str) -> Turn:
        turn = self._turns.get(response_id)
        if turn is None:
            if len(self._turns) >= _MOST_TURNS:
                del self._turns[next(iter(self._turns))]
            turn = self._turns[response_id] = Turn(offer=self._live.offer)
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
        turn = self._turns.pop(event.response_id, None) or Turn(offer=live.offer)
        live.emit(RealtimeAgentEndEvent, agent=turn.offer.agent)
        acts = event.status == "completed" and bool(turn.calls)
        if acts:
            group.create_task(act(live, turn))
        elif turn.calls:
            group.create_task(decline(live, turn))
        elif event.status == "completed":
            group.create_task(self._say_goodbye(turn))
        await live.gate.ended(goes_on=acts)

    async def _say_goodbye(self, turn: Turn) -> None:
        """The hooks for an answer that is complete; failures are reported."""
        live, agent, said = self._live, turn.offer.agent, self._history.last_said()
        try:
            await tell_hooks(
                live,
                agent,
                lambda hooks: hooks.on_agent_end(live.context, agent, said),
                lambda hooks: hooks.on_end(live.context, agent, said),
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
        await self._keep(kept)

    async def _transcript(self, event: RealtimeModelInputAudioTranscriptionCompletedEvent) -> None:
        item, is_new = self._history.set_text(event.item_id, event.transcript)
        if is_new:
            self._live.emit(RealtimeHistoryAdded, item=item)
        else:
            self._live.emit(RealtimeHistoryUpdated, history=self._history.all())
        await self._keep(item)

    async def _keep(self, item: RealtimeItem) -> None:
        """Store a message, once, when its text is known."""
        live = self._live
        if item.type == "message" and item.is_final and item.item_id not in live.known:
            live.known.add(item.item_id)
            await live.record.message(stored_item(item))
