"""Speech in, an agent's answer, speech out."""

from ekiden.compat.agents.not_supported import names_of
from ekiden.compat.agents.voice.events import (
    VoiceStreamEvent as VoiceStreamEvent,
    VoiceStreamEventAudio as VoiceStreamEventAudio,
    VoiceStreamEventError as VoiceStreamEventError,
    VoiceStreamEventLifecycle as VoiceStreamEventLifecycle,
)
from ekiden.compat.agents.voice.exceptions import (
    STTWebsocketConnectionError as STTWebsocketConnectionError,
)
from ekiden.compat.agents.voice.input import (
    AudioInput as AudioInput,
    StreamedAudioInput as StreamedAudioInput,
)
from ekiden.compat.agents.voice.model import (
    StreamedTranscriptionSession as StreamedTranscriptionSession,
    STTModel as STTModel,
    STTModelSettings as STTModelSettings,
    TTSCustomVoice as TTSCustomVoice,
    TTSModel as TTSModel,
    TTSModelSettings as TTSModelSettings,
    TTSVoice as TTSVoice,
    VoiceModelProvider as VoiceModelProvider,
)
from ekiden.compat.agents.voice.models.openai_model_provider import (
    OpenAIVoiceModelProvider as OpenAIVoiceModelProvider,
)
from ekiden.compat.agents.voice.models.openai_stt import (
    OpenAISTTModel as OpenAISTTModel,
    OpenAISTTTranscriptionSession as OpenAISTTTranscriptionSession,
)
from ekiden.compat.agents.voice.models.openai_tts import OpenAITTSModel as OpenAITTSModel
from ekiden.compat.agents.voice.pipeline import VoicePipeline as VoicePipeline
from ekiden.compat.agents.voice.pipeline_config import VoicePipelineConfig as VoicePipelineConfig
from ekiden.compat.agents.voice.result import StreamedAudioResult as StreamedAudioResult
from ekiden.compat.agents.voice.utils import (
    get_sentence_based_splitter as get_sentence_based_splitter,
)
from ekiden.compat.agents.voice.workflow import (
    SingleAgentVoiceWorkflow as SingleAgentVoiceWorkflow,
    SingleAgentWorkflowCallbacks as SingleAgentWorkflowCallbacks,
    VoiceWorkflowBase as VoiceWorkflowBase,
    VoiceWorkflowHelper as VoiceWorkflowHelper,
)

__all__ = names_of(__name__)
