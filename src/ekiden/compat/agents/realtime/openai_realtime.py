"""The model behind a WebSocket."""

from ekiden.realtime import RealtimeWebSocketModel as OpenAIRealtimeWebSocketModel

__all__ = ["OpenAIRealtimeWebSocketModel"]
