"""What a realtime model is told, with the SDK's fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ekiden.compat.agents.realtime.config import (
    RealtimeClientMessage,
    RealtimeSessionModelSettings,
    RealtimeUserInputImage,
    RealtimeUserInputMessage,
    RealtimeUserInputText,
)
from ekiden.compat.agents.realtime.model_events import RealtimeModelToolCallEvent

RealtimeModelRawClientMessage = RealtimeClientMessage
RealtimeModelInputTextContent = RealtimeUserInputText
RealtimeModelInputImageContent = RealtimeUserInputImage
RealtimeModelUserInputMessage = RealtimeUserInputMessage
RealtimeModelUserInput: TypeAlias = str | RealtimeModelUserInputMessage


@dataclass
class RealtimeModelSendRawMessage:
    """Send a message in the provider's own format."""

    message: RealtimeModelRawClientMessage


@dataclass
class RealtimeModelSendUserInput:
    """Send a message from the person, and request an answer from the model."""

    user_input: RealtimeModelUserInput


@dataclass
class RealtimeModelSendAudio:
    """Send audio from the person."""

    audio: bytes
    commit: bool = False


@dataclass
class RealtimeModelSendToolOutput:
    """Send the output of a tool."""

    tool_call: RealtimeModelToolCallEvent
    output: str
    start_response: bool
    """Whether the model answers next."""


@dataclass
class RealtimeModelSendInterrupt:
    """Stop the current answer and its playback."""

    force_response_cancel: bool = False
    response_id: str | None = None
    """Stop only this answer."""
    cancel_response_only: bool = False
    playback_only: bool = False


@dataclass
class RealtimeModelSendSessionUpdate:
    """Change the model's settings."""

    session_settings: RealtimeSessionModelSettings


RealtimeModelSendEvent: TypeAlias = (
    RealtimeModelSendRawMessage
    | RealtimeModelSendUserInput
    | RealtimeModelSendAudio
    | RealtimeModelSendToolOutput
    | RealtimeModelSendInterrupt
    | RealtimeModelSendSessionUpdate
)
