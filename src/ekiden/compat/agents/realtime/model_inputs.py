"""What a realtime model is told."""

from ekiden.integrations.realtime.model import (
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)

__all__ = [
    "RealtimeModelSendAudio",
    "RealtimeModelSendEvent",
    "RealtimeModelSendInterrupt",
    "RealtimeModelSendRawMessage",
    "RealtimeModelSendSessionUpdate",
    "RealtimeModelSendToolOutput",
    "RealtimeModelSendUserInput",
]
