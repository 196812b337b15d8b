"""Settings of live sessions: dictionaries, as in the SDK; audio settings are OpenAI's own types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias

from openai.types.realtime import (
    AudioTranscriptionParam,
    RealtimeAudioConfigInputParam,
    RealtimeAudioConfigOutputParam,
    RealtimeAudioConfigParam,
    RealtimeAudioFormats,
    RealtimeReasoningParam,
)
from openai.types.realtime.realtime_tracing_config_param import TracingConfiguration
from typing_extensions import TypedDict

from ekiden.compat.agents.prompts import Prompt

RealtimeModelName: TypeAlias = str
RealtimeReasoningEffort: TypeAlias = Literal["minimal", "low", "medium", "high", "xhigh"] | str
RealtimeAudioFormat: TypeAlias = str | Mapping[str, Any] | RealtimeAudioFormats
"""``pcm16``, ``g711_ulaw``, ``g711_alaw``, or the API's own object."""

RealtimeInputAudioTranscriptionConfig = AudioTranscriptionParam
RealtimeAudioConfig = RealtimeAudioConfigParam
RealtimeAudioInputConfig = RealtimeAudioConfigInputParam
RealtimeAudioOutputConfig = RealtimeAudioConfigOutputParam
RealtimeReasoningConfig = RealtimeReasoningParam
RealtimeModelTracingConfig = TracingConfiguration


class RealtimeCustomVoice(TypedDict):
    """A voice of your own."""

    id: str


RealtimeVoice: TypeAlias = str | RealtimeCustomVoice | Mapping[str, Any]


class RealtimeClientMessage(TypedDict):
    """A message in the format of the API; `other_data` has its other fields."""

    type: str
    other_data: NotRequired[dict[str, Any]]


class RealtimeInputAudioNoiseReductionConfig(TypedDict):
    """Settings of the noise filter."""

    type: NotRequired[Literal["near_field", "far_field"]]


class RealtimeTurnDetectionConfig(TypedDict):
    """Settings for detecting the end of a person's turn."""

    type: NotRequired[Literal["semantic_vad", "server_vad"]]
    create_response: NotRequired[bool]
    eagerness: NotRequired[Literal["auto", "low", "medium", "high"]]
    interrupt_response: NotRequired[bool]
    prefix_padding_ms: NotRequired[int]
    silence_duration_ms: NotRequired[int]
    threshold: NotRequired[float]
    idle_timeout_ms: NotRequired[int]
    model_version: NotRequired[str]


class RealtimeSessionModelSettings(TypedDict):
    """Settings of the model: audio input and output, instructions and tools."""

    model_name: NotRequired[RealtimeModelName]
    instructions: NotRequired[str]
    prompt: NotRequired[Prompt]
    modalities: NotRequired[list[Literal["text", "audio"]]]
    output_modalities: NotRequired[list[Literal["text", "audio"]]]
    audio: NotRequired[RealtimeAudioConfig]
    """Overrides the single audio settings below."""
    voice: NotRequired[RealtimeVoice]
    speed: NotRequired[float]
    max_output_tokens: NotRequired[int | Literal["inf"]]
    input_audio_format: NotRequired[RealtimeAudioFormat]
    output_audio_format: NotRequired[RealtimeAudioFormat]
    input_audio_transcription: NotRequired[RealtimeInputAudioTranscriptionConfig]
    input_audio_noise_reduction: NotRequired[RealtimeInputAudioNoiseReductionConfig | None]
    turn_detection: NotRequired[RealtimeTurnDetectionConfig | None]
    """`None`: the caller ends the person's turn, with ``send_audio(…, commit=True)``."""
    tool_choice: NotRequired[Any]
    parallel_tool_calls: NotRequired[bool]
    reasoning: NotRequired[RealtimeReasoningConfig]
    tools: NotRequired[list[Any]]
    handoffs: NotRequired[list[Any]]
    tracing: NotRequired[RealtimeModelTracingConfig | None]
    """If set, OpenAI records a trace."""


class RealtimeGuardrailsSettings(TypedDict):
    """Settings that decide when output guardrails run."""

    debounce_text_length: NotRequired[int]
    """The guardrails run whenever the answer has grown by this many characters; 100 by default."""


class RealtimeToolExecutionConfig(TypedDict):
    """Settings for running tools."""

    pre_approval_tool_input_guardrails: NotRequired[bool]
    """Has no effect: input guardrails always run before a person is asked."""


class RealtimeRunConfig(TypedDict):
    """Settings of a live session."""

    model_settings: NotRequired[RealtimeSessionModelSettings]
    output_guardrails: NotRequired[list[Any]]
    guardrails_settings: NotRequired[RealtimeGuardrailsSettings]
    tracing_disabled: NotRequired[bool]
    async_tool_calls: NotRequired[bool]
    """Has no effect: events are always read while tools run."""
    tool_execution: NotRequired[RealtimeToolExecutionConfig]
    tool_error_formatter: NotRequired[Any]
    """A function that makes the text for the model after a rejected call."""


class RealtimeUserInputText(TypedDict):
    """A text from the person."""

    type: Literal["input_text"]
    text: str


class RealtimeUserInputImage(TypedDict, total=False):
    """A picture of the person."""

    type: Literal["input_image"]
    image_url: str
    detail: NotRequired[str]


class RealtimeUserInputMessage(TypedDict):
    """A message from the person."""

    type: Literal["message"]
    role: Literal["user"]
    content: list[RealtimeUserInputText | RealtimeUserInputImage]


RealtimeUserInput: TypeAlias = str | RealtimeUserInputMessage
