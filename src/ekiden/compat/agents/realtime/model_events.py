"""What a realtime model tells."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.integrations.realtime.items import (
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)

__all__ = [
    "RealtimeModelAudioDoneEvent",
    "RealtimeModelAudioEvent",
    "RealtimeModelAudioInterruptedEvent",
    "RealtimeModelErrorEvent",
    "RealtimeModelEvent",
    "RealtimeModelInputAudioTranscriptionCompletedEvent",
    "RealtimeModelItemDeletedEvent",
    "RealtimeModelItemUpdatedEvent",
    "RealtimeModelOtherEvent",
    "RealtimeModelOutputTextDeltaEvent",
    "RealtimeModelToolCallEvent",
    "RealtimeModelTranscriptDeltaEvent",
    "RealtimeModelTurnEndedEvent",
    "RealtimeModelTurnStartedEvent",
]


__getattr__ = placeholders(__name__)
