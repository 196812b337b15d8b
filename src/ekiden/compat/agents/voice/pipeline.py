"""Speech in, an agent's answer, speech out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.tracing import custom_span, get_current_trace
from ekiden.compat.agents.tracing.setup import get_trace_provider
from ekiden.compat.agents.voice.input import AudioInput, StreamedAudioInput
from ekiden.compat.agents.voice.model import STTModel, TTSModel
from ekiden.compat.agents.voice.pipeline_config import VoicePipelineConfig
from ekiden.compat.agents.voice.result import StreamedAudioResult
from ekiden.compat.agents.voice.workflow import VoiceWorkflowBase


class VoicePipeline:
    """Transcribes speech, lets a workflow answer, and speaks the answer. Agent runs in the workflow
    are stored, traced and resumed like all runs."""

    def __init__(
        self,
        *,
        workflow: VoiceWorkflowBase,
        stt_model: STTModel | str | None = None,
        tts_model: TTSModel | str | None = None,
        config: VoicePipelineConfig | dict[str, Any] | None = None,
    ) -> None:
        self.workflow = workflow
        self.config = VoicePipelineConfig(**config) if isinstance(config, dict) else config
        self.config = self.config or VoicePipelineConfig()
        self._stt, self._tts = stt_model, tts_model

    @property
    def stt_model(self) -> STTModel:
        """The transcription model."""
        if not isinstance(self._stt, STTModel):
            self._stt = self._settings.model_provider.get_stt_model(self._stt)
        return self._stt

    @property
    def tts_model(self) -> TTSModel:
        """The speech model."""
        if not isinstance(self._tts, TTSModel):
            self._tts = self._settings.model_provider.get_tts_model(self._tts)
        return self._tts

    @property
    def _settings(self) -> VoicePipelineConfig:
        assert self.config is not None
        return self.config

    async def run(self, audio_input: AudioInput | StreamedAudioInput) -> StreamedAudioResult:
        """Start the pipeline; the result streams the spoken answer."""
        if isinstance(audio_input, AudioInput):
            heard = self._recorded(audio_input)
        elif isinstance(audio_input, StreamedAudioInput):
            heard = self._live(audio_input)
        else:
            raise UserError(f"Unsupported audio input type: {type(audio_input).__name__}")
        result = StreamedAudioResult(self.tts_model, self._settings.tts_settings, self._settings)
        result.text_generation_task = asyncio.create_task(
            self._answer(heard, result, greets=isinstance(audio_input, StreamedAudioInput))
        )
        return result

    async def _answer(
        self, heard: AsyncIterator[str], result: StreamedAudioResult, *, greets: bool
    ) -> None:
        with self._trace():
            try:
                if greets:
                    await _say(result, self.workflow.on_start())
                async for text in heard:
                    await _say(result, self.workflow.run(text))
            except Exception as exc:
                result.end(exc)
            else:
                result.end()

    def _sensitive(self) -> tuple[bool, bool]:
        config = self._settings
        return config.trace_include_sensitive_data, config.trace_include_sensitive_audio_data

    async def _recorded(self, audio: AudioInput) -> AsyncIterator[str]:
        yield await self.stt_model.transcribe(
            audio, self._settings.stt_settings, *self._sensitive()
        )

    async def _live(self, audio: StreamedAudioInput) -> AsyncIterator[str]:
        session = await self.stt_model.create_session(
            audio, self._settings.stt_settings, *self._sensitive()
        )
        try:
            async for text in session.transcribe_turns():
                yield text
        finally:
            await session.close()

    @contextmanager
    def _trace(self) -> Iterator[None]:
        """The caller's trace, or one of its own; none at all if tracing is off."""
        config = self._settings
        if get_current_trace() is not None and not config.tracing_disabled:
            yield
            return
        with get_trace_provider().create_trace(
            name=config.workflow_name or "Voice Agent",
            group_id=config.group_id,
            metadata=config.trace_metadata,
            tracing=config.tracing,
            disabled=config.tracing_disabled,
        ):
            if not config.tracing_disabled:
                yield
                return
            with custom_span("voice", disabled=True):
                yield


async def _say(result: StreamedAudioResult, texts: AsyncIterator[str]) -> None:
    async for text in texts:
        result.say(text)
    await result.end_turn()
