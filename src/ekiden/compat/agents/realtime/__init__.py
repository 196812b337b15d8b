"""Live sessions."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.compat.agents.realtime.agent import (
    RealtimeAgent,
    RealtimeAgentHooks,
    RealtimeRunHooks,
)
from ekiden.compat.agents.realtime.config import (
    RealtimeRunConfig,
    RealtimeSessionModelSettings,
)
from ekiden.compat.agents.realtime.events import (
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
from ekiden.compat.agents.realtime.handoffs import (
    realtime_handoff,
)
from ekiden.compat.agents.realtime.items import (
    RealtimeItem,
)
from ekiden.compat.agents.realtime.model import (
    RealtimeModel,
)
from ekiden.compat.agents.realtime.model_events import (
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)
from ekiden.compat.agents.realtime.model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from ekiden.compat.agents.realtime.openai_realtime import (
    OpenAIRealtimeWebSocketModel,
)
from ekiden.compat.agents.realtime.runner import (
    RealtimeRunner,
)
from ekiden.compat.agents.realtime.session import (
    RealtimeSession,
)

__all__ = [
    "OpenAIRealtimeWebSocketModel",
    "RealtimeAgent",
    "RealtimeAgentEndEvent",
    "RealtimeAgentHooks",
    "RealtimeAgentStartEvent",
    "RealtimeAudio",
    "RealtimeAudioEnd",
    "RealtimeAudioInterrupted",
    "RealtimeError",
    "RealtimeEventInfo",
    "RealtimeHandoffEvent",
    "RealtimeHistoryAdded",
    "RealtimeHistoryUpdated",
    "RealtimeItem",
    "RealtimeModel",
    "RealtimeModelAudioDoneEvent",
    "RealtimeModelAudioEvent",
    "RealtimeModelAudioInterruptedEvent",
    "RealtimeModelErrorEvent",
    "RealtimeModelEvent",
    "RealtimeModelInputAudioTranscriptionCompletedEvent",
    "RealtimeModelItemDeletedEvent",
    "RealtimeModelItemUpdatedEvent",
    "RealtimeModelOtherEvent",
    "RealtimeModelOutputTextDeltaEvent",
    "RealtimeModelSendAudio",
    "RealtimeModelSendEvent",
    "RealtimeModelSendInterrupt",
    "RealtimeModelSendRawMessage",
    "RealtimeModelSendSessionUpdate",
    "RealtimeModelSendToolOutput",
    "RealtimeModelSendUserInput",
    "RealtimeModelToolCallEvent",
    "RealtimeModelTranscriptDeltaEvent",
    "RealtimeModelTurnEndedEvent",
    "RealtimeModelTurnStartedEvent",
    "RealtimeRawModelEvent",
    "RealtimeRunConfig",
    "RealtimeRunHooks",
    "RealtimeRunner",
    "RealtimeSession",
    "RealtimeSessionEvent",
    "RealtimeSessionModelSettings",
    "RealtimeToolEnd",
    "RealtimeToolStart",
    "realtime_handoff",
]


__getattr__ = placeholders(__name__)
