"""Models that hear and speak."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from ekiden.compat.agents.voice.imports import np
from ekiden.compat.agents.voice.input import AudioInput, StreamedAudioInput
from ekiden.compat.agents.voice.utils import get_sentence_based_splitter

DEFAULT_TTS_INSTRUCTIONS = "Read the text aloud as it is; it may be a part of a sentence."
DEFAULT_TTS_BUFFER_SIZE = 120
_SENTENCES = get_sentence_based_splitter()


class TTSCustomVoice(TypedDict):
    """A custom voice that OpenAI stores."""

    id: str


TTSVoice = (
    Literal[
        "alloy",
        "ash",
        "ballad",
        "cedar",
        "coral",
        "echo",
        "fable",
        "marin",
        "nova",
        "onyx",
        "sage",
        "shimmer",
        "verse",
    ]
    | TTSCustomVoice
)


@dataclass
class TTSModelSettings:
    """Settings for speech synthesis."""

    voice: TTSVoice | None = None
    buffer_size: int = DEFAULT_TTS_BUFFER_SIZE
    """The number of audio pieces in one event."""
    dtype: Any = np.int16
    """The type of the samples: int16 or float32."""
    transform_data: Callable[[Any], Any] | None = None
    instructions: str = DEFAULT_TTS_INSTRUCTIONS
    text_splitter: Callable[[str], tuple[str, str]] = _SENTENCES
    """A function that splits the text into the part to speak now and the rest."""
    speed: float | None = None


@dataclass
class STTModelSettings:
    """Settings for transcription."""

    prompt: str | None = None
    language: str | None = None
    temperature: float | None = None
    turn_detection: dict[str, Any] | None = None
    languages: list[str] | None = field(default=None, kw_only=True)
    """Replaces `language` for models that support several languages."""
    keywords: list[str] | None = field(default=None, kw_only=True)


class TTSModel(ABC):
    """A model that converts text to speech."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model's name."""

    @abstractmethod
    def run(self, text: str, settings: TTSModelSettings) -> AsyncIterator[bytes]:
        """The speech as 16-bit PCM, piece by piece."""


class StreamedTranscriptionSession(ABC):
    """Transcribes a stream of speech."""

    @abstractmethod
    def transcribe_turns(self) -> AsyncIterator[str]:
        """The transcript of each turn, until the session is closed."""

    @abstractmethod
    async def close(self) -> None:
        """End the session."""


class STTModel(ABC):
    """A model that transcribes speech."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model's name."""

    @abstractmethod
    async def transcribe(
        self,
        input: AudioInput,
        settings: STTModelSettings,
        trace_include_sensitive_data: bool,
        trace_include_sensitive_audio_data: bool,
    ) -> str:
        """The text of a recording."""

    @abstractmethod
    async def create_session(
        self,
        input: StreamedAudioInput,
        settings: STTModelSettings,
        trace_include_sensitive_data: bool,
        trace_include_sensitive_audio_data: bool,
    ) -> StreamedTranscriptionSession:
        """A session that transcribes a stream of speech."""


class VoiceModelProvider(ABC):
    """Finds models by name; `None` means the default model."""

    @abstractmethod
    def get_stt_model(self, model_name: str | None) -> STTModel:
        """The transcription model with this name."""

    @abstractmethod
    def get_tts_model(self, model_name: str | None) -> TTSModel:
        """The speech model with this name."""
