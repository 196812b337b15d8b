"""What a realtime model reports, with the SDK's fields."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from ekiden.compat.agents.usage import Usage
from ekiden.integrations.realtime import items as native

RealtimeConnectionStatus: TypeAlias = Literal["connecting", "connected", "disconnected"]


@dataclass
class RealtimeModelErrorEvent:
    """An error that does not end the connection."""

    error: Any
    type: Literal["error"] = "error"


@dataclass
class RealtimeModelToolCallEvent:
    """The model calls a tool."""

    name: str
    call_id: str
    arguments: str
    id: str | None = None
    previous_item_id: str | None = None
    type: Literal["function_call"] = "function_call"


@dataclass
class RealtimeModelAudioEvent:
    """A piece of audio from the model."""

    data: bytes
    response_id: str
    item_id: str
    content_index: int
    type: Literal["audio"] = "audio"


@dataclass
class RealtimeModelAudioInterruptedEvent:
    """Stop playing the current audio."""

    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass
class RealtimeModelAudioDoneEvent:
    """The audio of this part is complete."""

    item_id: str
    content_index: int
    type: Literal["audio_done"] = "audio_done"


@dataclass
class RealtimeModelInputAudioTranscriptionCompletedEvent:
    """The transcript of the person's speech."""

    item_id: str
    transcript: str
    type: Literal["input_audio_transcription_completed"] = "input_audio_transcription_completed"


@dataclass
class RealtimeModelTranscriptDeltaEvent:
    """A piece of the transcript of the model's speech."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["transcript_delta"] = "transcript_delta"


@dataclass
class RealtimeModelOutputTextDeltaEvent:
    """A piece of text from the model."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["output_text_delta"] = "output_text_delta"


@dataclass
class RealtimeModelItemDeletedEvent:
    """An item is no longer part of the conversation."""

    item_id: str
    type: Literal["item_deleted"] = "item_deleted"


@dataclass
class RealtimeModelOtherEvent:
    """An event that only the provider defines."""

    data: Any
    type: Literal["other"] = "other"


@dataclass
class RealtimeModelTurnStartedEvent:
    """The model begins an answer."""

    type: Literal["turn_started"] = "turn_started"
    response_id: str | None = None


@dataclass
class RealtimeModelTurnEndedEvent:
    """The model's answer has ended."""

    type: Literal["turn_ended"] = "turn_ended"
    response_id: str | None = None


@dataclass
class RealtimeModelInputAudioTimeoutTriggeredEvent:
    """The person said nothing for a while."""

    item_id: str
    audio_start_ms: int
    audio_end_ms: int
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


@dataclass
class RealtimeModelItemUpdatedEvent:
    """An item was added or changed."""

    item: Any
    type: Literal["item_updated"] = "item_updated"


@dataclass
class RealtimeModelConnectionStatusEvent:
    """The state of the connection changed."""

    status: RealtimeConnectionStatus
    type: Literal["connection_status"] = "connection_status"


@dataclass
class RealtimeModelEndOfStreamEvent:
    """There are no more events."""

    type: Literal["end_of_stream"] = "end_of_stream"


@dataclass
class RealtimeModelCachedTokensDetails:
    """Cached input tokens by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None


@dataclass
class RealtimeModelInputTokensDetails:
    """Input tokens by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None
    cached_tokens: int | None = None
    cached_tokens_details: RealtimeModelCachedTokensDetails | None = None


@dataclass
class RealtimeModelOutputTokensDetails:
    """Output tokens by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None


@dataclass
class RealtimeModelUsageEvent:
    """The tokens of an answer."""

    usage: Usage
    input_tokens_details: RealtimeModelInputTokensDetails | None = None
    output_tokens_details: RealtimeModelOutputTokensDetails | None = None
    type: Literal["usage"] = "usage"


@dataclass
class RealtimeModelExceptionEvent:
    """The model failed; the session raises the exception."""

    exception: Exception
    context: str | None = None
    type: Literal["exception"] = "exception"


@dataclass
class RealtimeModelRawServerEvent:
    """A message of the provider, as it was sent."""

    data: Any
    type: Literal["raw_server_event"] = "raw_server_event"


RealtimeModelEvent: TypeAlias = (
    RealtimeModelErrorEvent
    | RealtimeModelToolCallEvent
    | RealtimeModelAudioEvent
    | RealtimeModelAudioInterruptedEvent
    | RealtimeModelAudioDoneEvent
    | RealtimeModelInputAudioTimeoutTriggeredEvent
    | RealtimeModelInputAudioTranscriptionCompletedEvent
    | RealtimeModelTranscriptDeltaEvent
    | RealtimeModelOutputTextDeltaEvent
    | RealtimeModelItemUpdatedEvent
    | RealtimeModelItemDeletedEvent
    | RealtimeModelConnectionStatusEvent
    | RealtimeModelEndOfStreamEvent
    | RealtimeModelTurnStartedEvent
    | RealtimeModelUsageEvent
    | RealtimeModelTurnEndedEvent
    | RealtimeModelOtherEvent
    | RealtimeModelExceptionEvent
    | RealtimeModelRawServerEvent
)

_SAME: dict[type[Any], type[Any]] = {
    kind: getattr(native, kind.__name__)
    for kind in (
        RealtimeModelErrorEvent,
        RealtimeModelAudioEvent,
        RealtimeModelAudioInterruptedEvent,
        RealtimeModelAudioDoneEvent,
        RealtimeModelInputAudioTranscriptionCompletedEvent,
        RealtimeModelTranscriptDeltaEvent,
        RealtimeModelOutputTextDeltaEvent,
        RealtimeModelItemDeletedEvent,
        RealtimeModelOtherEvent,
    )
}
"""Events that have the same fields in Ekiden's sessions."""
_SDK = {theirs: ours for ours, theirs in _SAME.items()}


def same(event: Any) -> Any:
    """An event of the SDK as one of Ekiden's, or the reverse; others as they are."""
    kind = _SAME.get(type(event)) or _SDK.get(type(event))
    if kind is None:
        return event
    return kind(**{each.name: getattr(event, each.name) for each in fields(event)})
