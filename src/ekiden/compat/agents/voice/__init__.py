"""Speech in, an agent's answer, speech out."""

from ekiden.compat.agents.voice.events import (
    VoiceStreamEvent,
    VoiceStreamEventAudio,
    VoiceStreamEventError,
    VoiceStreamEventLifecycle,
)
from ekiden.compat.agents.voice.exceptions import (
    STTWebsocketConnectionError,
)
from ekiden.compat.agents.voice.input import (
    AudioInput,
    StreamedAudioInput,
)
from ekiden.compat.agents.voice.model import (
    StreamedTranscriptionSession,
    STTModel,
    STTModelSettings,
    TTSCustomVoice,
    TTSModel,
    TTSModelSettings,
    TTSVoice,
    VoiceModelProvider,
)
from ekiden.compat.agents.voice.models.openai_model_provider import (
    OpenAIVoiceModelProvider,
)
from ekiden.compat.agents.voice.models.openai_stt import (
    OpenAISTTModel,
    OpenAISTTTranscriptionSession,
)
from ekiden.compat.agents.voice.models.openai_tts import (
    OpenAITTSModel,
)
from ekiden.compat.agents.voice.pipeline import (
    VoicePipeline,
)
from ekiden.compat.agents.voice.pipeline_config import (
    VoicePipelineConfig,
)
from ekiden.compat.agents.voice.result import (
    StreamedAudioResult,
)
from ekiden.compat.agents.voice.utils import (
    get_sentence_based_splitter,
)
from ekiden.compat.agents.voice.workflow import (
    SingleAgentVoiceWorkflow,
    SingleAgentWorkflowCallbacks,
    VoiceWorkflowBase,
    VoiceWorkflowHelper,
)

__all__ = [
    "AudioInput",
    "OpenAISTTModel",
    "OpenAISTTTranscriptionSession",
    "OpenAITTSModel",
    "OpenAIVoiceModelProvider",
    "STTModel",
    "STTModelSettings",
    "STTWebsocketConnectionError",
    "SingleAgentVoiceWorkflow",
    "SingleAgentWorkflowCallbacks",
    "StreamedAudioInput",
    "StreamedAudioResult",
    "StreamedTranscriptionSession",
    "TTSCustomVoice",
    "TTSModel",
    "TTSModelSettings",
    "TTSVoice",
    "VoiceModelProvider",
    "VoicePipeline",
    "VoicePipelineConfig",
    "VoiceStreamEvent",
    "VoiceStreamEventAudio",
    "VoiceStreamEventError",
    "VoiceStreamEventLifecycle",
    "VoiceWorkflowBase",
    "VoiceWorkflowHelper",
    "get_sentence_based_splitter",
]
