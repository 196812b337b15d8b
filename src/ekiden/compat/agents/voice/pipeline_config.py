"""Settings of a `VoicePipeline`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ekiden.compat.agents.tracing import TracingConfig
from ekiden.compat.agents.tracing.util import gen_group_id
from ekiden.compat.agents.voice.model import STTModelSettings, TTSModelSettings, VoiceModelProvider
from ekiden.compat.agents.voice.models.openai_model_provider import OpenAIVoiceModelProvider


@dataclass(init=False)
class VoicePipelineConfig:
    """Settings of a `VoicePipeline`. Model settings may be dictionaries."""

    model_provider: VoiceModelProvider = field(default_factory=OpenAIVoiceModelProvider)
    tracing_disabled: bool = False
    tracing: TracingConfig | None = None
    trace_include_sensitive_data: bool = True
    trace_include_sensitive_audio_data: bool = True
    workflow_name: str = "Voice Agent"
    group_id: str = field(default_factory=gen_group_id)
    trace_metadata: dict[str, Any] | None = None
    stt_settings: STTModelSettings = field(default_factory=STTModelSettings)
    tts_settings: TTSModelSettings = field(default_factory=TTSModelSettings)

    def __init__(self, *args: Any, **given: Any) -> None:
        names = [each.name for each in fields(self)]
        # Older programs give a truth value in the place of `tracing`.
        if len(args) > 2 and isinstance(args[2], bool):
            names.remove("tracing")
        if len(args) > len(names):
            raise TypeError(f"VoicePipelineConfig takes at most {len(names)} arguments")
        for name, value in zip(names, args, strict=False):
            if name in given:
                raise TypeError(f"VoicePipelineConfig got multiple values for argument {name!r}")
            given[name] = value
        for each in fields(self):
            if each.name in given:
                setattr(self, each.name, given.pop(each.name))
            elif callable(each.default_factory):
                setattr(self, each.name, each.default_factory())
        if given:
            raise TypeError(f"VoicePipelineConfig has no field {sorted(given)[0]!r}")
        if isinstance(self.stt_settings, dict):
            self.stt_settings = STTModelSettings(**self.stt_settings)
        if isinstance(self.tts_settings, dict):
            self.tts_settings = TTSModelSettings(**self.tts_settings)
