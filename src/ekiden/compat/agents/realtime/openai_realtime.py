"""The model behind a WebSocket."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.integrations.realtime import RealtimeWebSocketModel as OpenAIRealtimeWebSocketModel

__all__ = ["OpenAIRealtimeWebSocketModel"]


__getattr__ = placeholders(__name__)
