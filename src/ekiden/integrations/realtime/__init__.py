"""Live sessions: agents that speak and hand over to each other on one open connection."""

from ekiden.integrations.realtime.agent import RealtimeAgent, RealtimeAgentHooks, RealtimeRunHooks
from ekiden.integrations.realtime.config import (
    RealtimeClosed,
    RealtimeDisconnected,
    RealtimeModelSettings,
    RealtimeRunConfig,
    RealtimeServerError,
    RealtimeUnavailable,
)
from ekiden.integrations.realtime.events import (
    RealtimeAgentEndEvent,
    RealtimeAgentStartEvent,
    RealtimeAudio,
    RealtimeAudioEnd,
    RealtimeAudioInterrupted,
    RealtimeError,
    RealtimeEventInfo,
    RealtimeHandoffEvent,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeRawModelEvent,
    RealtimeSessionEvent,
    RealtimeToolEnd,
    RealtimeToolStart,
)
from ekiden.integrations.realtime.handoffs import collect_enabled_handoffs, realtime_handoff
from ekiden.integrations.realtime.items import RealtimeItem
from ekiden.integrations.realtime.model import RealtimeConnection, RealtimeModel, RealtimeSetup
from ekiden.integrations.realtime.session import RealtimeRunner, RealtimeSession
from ekiden.integrations.realtime.websocket import RealtimeWebSocketModel

__all__ = [
    "RealtimeAgent",
    "RealtimeAgentEndEvent",
    "RealtimeAgentHooks",
    "RealtimeAgentStartEvent",
    "RealtimeAudio",
    "RealtimeAudioEnd",
    "RealtimeAudioInterrupted",
    "RealtimeClosed",
    "RealtimeConnection",
    "RealtimeDisconnected",
    "RealtimeError",
    "RealtimeEventInfo",
    "RealtimeHandoffEvent",
    "RealtimeHistoryAdded",
    "RealtimeHistoryUpdated",
    "RealtimeItem",
    "RealtimeModel",
    "RealtimeModelSettings",
    "RealtimeRawModelEvent",
    "RealtimeRunConfig",
    "RealtimeRunHooks",
    "RealtimeRunner",
    "RealtimeServerError",
    "RealtimeSession",
    "RealtimeSessionEvent",
    "RealtimeSetup",
    "RealtimeToolEnd",
    "RealtimeToolStart",
    "RealtimeUnavailable",
    "RealtimeWebSocketModel",
    "collect_enabled_handoffs",
    "realtime_handoff",
]
