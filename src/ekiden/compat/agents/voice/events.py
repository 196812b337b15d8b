"""What a `StreamedAudioResult` gives while somebody listens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias


@dataclass
class VoiceStreamEventAudio:
    """Audio samples to play."""

    data: Any
    type: Literal["voice_stream_event_audio"] = "voice_stream_event_audio"


@dataclass
class VoiceStreamEventLifecycle:
    """A turn or the session starts or ends."""

    event: Literal["turn_started", "turn_ended", "session_ended"]
    type: Literal["voice_stream_event_lifecycle"] = "voice_stream_event_lifecycle"


@dataclass
class VoiceStreamEventError:
    """The error that ended the session."""

    error: Exception
    type: Literal["voice_stream_event_error"] = "voice_stream_event_error"


VoiceStreamEvent: TypeAlias = (
    VoiceStreamEventAudio | VoiceStreamEventLifecycle | VoiceStreamEventError
)
