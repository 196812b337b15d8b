"""The model behind a WebSocket."""

from ekiden.integrations.realtime import RealtimeWebSocketModel as OpenAIRealtimeWebSocketModel

__all__ = ["OpenAIRealtimeWebSocketModel"]
