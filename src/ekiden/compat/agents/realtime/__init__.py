"""Live sessions."""

from ekiden.compat.agents.not_supported import names_of
from ekiden.compat.agents.realtime.agent import (
    RealtimeAgent as RealtimeAgent,
    RealtimeAgentHooks as RealtimeAgentHooks,
    RealtimeRunHooks as RealtimeRunHooks,
)
from ekiden.compat.agents.realtime.config import (
    RealtimeAudioFormat as RealtimeAudioFormat,
    RealtimeClientMessage as RealtimeClientMessage,
    RealtimeGuardrailsSettings as RealtimeGuardrailsSettings,
    RealtimeInputAudioNoiseReductionConfig as RealtimeInputAudioNoiseReductionConfig,
    RealtimeInputAudioTranscriptionConfig as RealtimeInputAudioTranscriptionConfig,
    RealtimeModelName as RealtimeModelName,
    RealtimeModelTracingConfig as RealtimeModelTracingConfig,
    RealtimeReasoningConfig as RealtimeReasoningConfig,
    RealtimeReasoningEffort as RealtimeReasoningEffort,
    RealtimeRunConfig as RealtimeRunConfig,
    RealtimeSessionModelSettings as RealtimeSessionModelSettings,
    RealtimeToolExecutionConfig as RealtimeToolExecutionConfig,
    RealtimeTurnDetectionConfig as RealtimeTurnDetectionConfig,
    RealtimeUserInput as RealtimeUserInput,
    RealtimeUserInputMessage as RealtimeUserInputMessage,
    RealtimeUserInputText as RealtimeUserInputText,
)
from ekiden.compat.agents.realtime.events import (
    RealtimeAgentEndEvent as RealtimeAgentEndEvent,
    RealtimeAgentStartEvent as RealtimeAgentStartEvent,
    RealtimeAudio as RealtimeAudio,
    RealtimeAudioEnd as RealtimeAudioEnd,
    RealtimeAudioInterrupted as RealtimeAudioInterrupted,
    RealtimeError as RealtimeError,
    RealtimeEventInfo as RealtimeEventInfo,
    RealtimeGuardrailTripped as RealtimeGuardrailTripped,
    RealtimeHandoffEvent as RealtimeHandoffEvent,
    RealtimeHistoryAdded as RealtimeHistoryAdded,
    RealtimeHistoryUpdated as RealtimeHistoryUpdated,
    RealtimeRawModelEvent as RealtimeRawModelEvent,
    RealtimeSessionEvent as RealtimeSessionEvent,
    RealtimeToolApprovalRequired as RealtimeToolApprovalRequired,
    RealtimeToolEnd as RealtimeToolEnd,
    RealtimeToolStart as RealtimeToolStart,
)
from ekiden.compat.agents.realtime.handoffs import realtime_handoff as realtime_handoff
from ekiden.compat.agents.realtime.items import (
    AssistantMessageItem as AssistantMessageItem,
    AssistantText as AssistantText,
    InputAudio as InputAudio,
    InputText as InputText,
    RealtimeItem as RealtimeItem,
    RealtimeMessageItem as RealtimeMessageItem,
    RealtimeResponse as RealtimeResponse,
    RealtimeToolCallItem as RealtimeToolCallItem,
    SystemMessageItem as SystemMessageItem,
    UserMessageItem as UserMessageItem,
)
from ekiden.compat.agents.realtime.model import (
    RealtimeModel as RealtimeModel,
    RealtimeModelConfig as RealtimeModelConfig,
    RealtimeModelListener as RealtimeModelListener,
    RealtimePlaybackState as RealtimePlaybackState,
    RealtimePlaybackTracker as RealtimePlaybackTracker,
)
from ekiden.compat.agents.realtime.model_events import (
    RealtimeConnectionStatus as RealtimeConnectionStatus,
    RealtimeModelAudioDoneEvent as RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent as RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent as RealtimeModelAudioInterruptedEvent,
    RealtimeModelCachedTokensDetails as RealtimeModelCachedTokensDetails,
    RealtimeModelConnectionStatusEvent as RealtimeModelConnectionStatusEvent,
    RealtimeModelEndOfStreamEvent as RealtimeModelEndOfStreamEvent,
    RealtimeModelErrorEvent as RealtimeModelErrorEvent,
    RealtimeModelEvent as RealtimeModelEvent,
    RealtimeModelExceptionEvent as RealtimeModelExceptionEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent as RealtimeModelInputAudioTranscriptionCompletedEvent,  # noqa: E501
    RealtimeModelInputTokensDetails as RealtimeModelInputTokensDetails,
    RealtimeModelItemDeletedEvent as RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent as RealtimeModelItemUpdatedEvent,
    RealtimeModelOtherEvent as RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent as RealtimeModelOutputTextDeltaEvent,
    RealtimeModelOutputTokensDetails as RealtimeModelOutputTokensDetails,
    RealtimeModelToolCallEvent as RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent as RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent as RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent as RealtimeModelTurnStartedEvent,
    RealtimeModelUsageEvent as RealtimeModelUsageEvent,
)
from ekiden.compat.agents.realtime.model_inputs import (
    RealtimeModelInputTextContent as RealtimeModelInputTextContent,
    RealtimeModelRawClientMessage as RealtimeModelRawClientMessage,
    RealtimeModelSendAudio as RealtimeModelSendAudio,
    RealtimeModelSendEvent as RealtimeModelSendEvent,
    RealtimeModelSendInterrupt as RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage as RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate as RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput as RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput as RealtimeModelSendUserInput,
    RealtimeModelUserInput as RealtimeModelUserInput,
    RealtimeModelUserInputMessage as RealtimeModelUserInputMessage,
)
from ekiden.compat.agents.realtime.openai_realtime import (
    DEFAULT_MODEL_SETTINGS as DEFAULT_MODEL_SETTINGS,
    OpenAIRealtimeSIPModel as OpenAIRealtimeSIPModel,
    OpenAIRealtimeWebSocketModel as OpenAIRealtimeWebSocketModel,
    get_api_key as get_api_key,
)
from ekiden.compat.agents.realtime.runner import RealtimeRunner as RealtimeRunner
from ekiden.compat.agents.realtime.session import RealtimeSession as RealtimeSession

__all__ = names_of(__name__)
