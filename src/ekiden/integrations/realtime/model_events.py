"""What a realtime model tells the session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.integrations.realtime.items import RealtimeItem

TurnStatus: TypeAlias = Literal["completed", "cancelled", "failed", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelTurnStartedEvent:
    """The model begins an answer."""

    response_id: str
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelToolCallEvent:
    """The model asks for a tool or a handoff; it is answered when the turn has ended."""

    name: str
    call_id: str
    arguments: str
    """JSON text, or what the model takes for it."""
    response_id: str
    item_id: str | None = None
    type: Literal["function_call"] = "function_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelTurnEndedEvent:
    """The model's answer is over; only the calls of a `completed` one are made."""

    response_id: str
    status: TurnStatus = "completed"
    usage: Usage = field(default_factory=Usage)
    type: Literal["turn_ended"] = "turn_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelAudioEvent:
    """A piece of what the model says."""

    data: bytes = field(repr=False)
    response_id: str
    item_id: str
    content_index: int
    type: Literal["audio"] = "audio"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelAudioDoneEvent:
    """The model has said all of this part."""

    item_id: str
    content_index: int
    type: Literal["audio_done"] = "audio_done"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelAudioInterruptedEvent:
    """What is being said should no longer be played."""

    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelSpeechStartedEvent:
    """The person begins to speak."""

    type: Literal["speech_started"] = "speech_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelTranscriptDeltaEvent:
    """A piece of the text of what the model says."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["transcript_delta"] = "transcript_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelOutputTextDeltaEvent:
    """A piece of what the model writes."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["output_text_delta"] = "output_text_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelInputAudioTranscriptionCompletedEvent:
    """What the person said, as text."""

    item_id: str
    transcript: str
    type: Literal["input_audio_transcription_completed"] = "input_audio_transcription_completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelItemUpdatedEvent:
    """An item is new in the conversation, or changed."""

    item: RealtimeItem
    type: Literal["item_updated"] = "item_updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelItemDeletedEvent:
    """An item is no longer part of the conversation."""

    item_id: str
    type: Literal["item_deleted"] = "item_deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelErrorEvent:
    """Something went wrong that the connection survives."""

    error: Exception
    type: Literal["error"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeModelOtherEvent:
    """Something that only the provider knows of."""

    data: Any
    type: Literal["other"] = "other"


RealtimeModelEvent: TypeAlias = (
    RealtimeModelTurnStartedEvent
    | RealtimeModelToolCallEvent
    | RealtimeModelTurnEndedEvent
    | RealtimeModelAudioEvent
    | RealtimeModelAudioDoneEvent
    | RealtimeModelAudioInterruptedEvent
    | RealtimeModelSpeechStartedEvent
    | RealtimeModelTranscriptDeltaEvent
    | RealtimeModelOutputTextDeltaEvent
    | RealtimeModelInputAudioTranscriptionCompletedEvent
    | RealtimeModelItemUpdatedEvent
    | RealtimeModelItemDeletedEvent
    | RealtimeModelErrorEvent
    | RealtimeModelOtherEvent
)
