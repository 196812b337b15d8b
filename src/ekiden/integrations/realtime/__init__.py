"""Live sessions: agents that speak and hand over to each other on one open connection."""

from ekiden.integrations.realtime.agent import (
    RealtimeAgent as RealtimeAgent,
    RealtimeAgentHooks as RealtimeAgentHooks,
    RealtimeRunHooks as RealtimeRunHooks,
    collect_enabled_handoffs as collect_enabled_handoffs,
    realtime_handoff as realtime_handoff,
)
from ekiden.integrations.realtime.items import RealtimeItem as RealtimeItem
from ekiden.integrations.realtime.live import (
    RealtimeAgentEndEvent as RealtimeAgentEndEvent,
    RealtimeAgentStartEvent as RealtimeAgentStartEvent,
    RealtimeAudio as RealtimeAudio,
    RealtimeAudioEnd as RealtimeAudioEnd,
    RealtimeAudioInterrupted as RealtimeAudioInterrupted,
    RealtimeError as RealtimeError,
    RealtimeEventInfo as RealtimeEventInfo,
    RealtimeHandoffEvent as RealtimeHandoffEvent,
    RealtimeHistoryAdded as RealtimeHistoryAdded,
    RealtimeHistoryUpdated as RealtimeHistoryUpdated,
    RealtimeRawModelEvent as RealtimeRawModelEvent,
    RealtimeSessionEvent as RealtimeSessionEvent,
    RealtimeToolEnd as RealtimeToolEnd,
    RealtimeToolStart as RealtimeToolStart,
)
from ekiden.integrations.realtime.model import (
    RealtimeClosed as RealtimeClosed,
    RealtimeConnection as RealtimeConnection,
    RealtimeDisconnected as RealtimeDisconnected,
    RealtimeModel as RealtimeModel,
    RealtimeModelSettings as RealtimeModelSettings,
    RealtimeRunConfig as RealtimeRunConfig,
    RealtimeServerError as RealtimeServerError,
    RealtimeSetup as RealtimeSetup,
    RealtimeUnavailable as RealtimeUnavailable,
)
from ekiden.integrations.realtime.session import (
    RealtimeRunner as RealtimeRunner,
    RealtimeSession as RealtimeSession,
)
from ekiden.integrations.realtime.websocket import RealtimeWebSocketModel as RealtimeWebSocketModel
