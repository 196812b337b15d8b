"""What a realtime model reports, with the SDK's fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.compat.agents.usage import Usage
from ekiden.integrations.realtime.items import (
    RealtimeModelAudioDoneEvent as RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent as RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent as RealtimeModelAudioInterruptedEvent,
    RealtimeModelErrorEvent as RealtimeModelErrorEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent as RealtimeModelInputAudioTranscriptionCompletedEvent,  # noqa: E501
    RealtimeModelItemDeletedEvent as RealtimeModelItemDeletedEvent,
    RealtimeModelOtherEvent as RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent as RealtimeModelOutputTextDeltaEvent,
    RealtimeModelTranscriptDeltaEvent as RealtimeModelTranscriptDeltaEvent,
)

RealtimeConnectionStatus: TypeAlias = Literal["connecting", "connected", "disconnected"]


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
