"""The speech that a `VoicePipeline` makes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.tracing import speech_group_span, speech_span
from ekiden.compat.agents.tracing.util import time_iso
from ekiden.compat.agents.voice.events import (
    VoiceStreamEvent,
    VoiceStreamEventAudio,
    VoiceStreamEventError,
    VoiceStreamEventLifecycle,
)
from ekiden.compat.agents.voice.imports import np
from ekiden.compat.agents.voice.model import TTSModel, TTSModelSettings
from ekiden.compat.agents.voice.pipeline_config import VoicePipelineConfig


class StreamedAudioResult:
    """A stream of the spoken answer.

    Each sentence is converted to speech in a separate task, so that the next sentence is ready
    while the first is played. `stream` yields the audio in the order of the text.
    """

    def __init__(
        self,
        tts_model: TTSModel,
        tts_settings: TTSModelSettings,
        voice_pipeline_config: VoicePipelineConfig,
    ) -> None:
        self.tts_model, self.tts_settings = tts_model, tts_settings
        self.total_output_text = ""
        self.instructions = tts_settings.instructions
        self.text_generation_task: asyncio.Task[None] | None = None
        self._config = voice_pipeline_config
        self._waiting = ""
        self._group: Any = None
        self._pieces: asyncio.Queue[asyncio.Queue[VoiceStreamEvent | None] | None] = asyncio.Queue()
        self._speaking: set[asyncio.Task[None]] = set()
        self._error: Exception | None = None

    async def stream(self) -> AsyncIterator[VoiceStreamEvent]:
        """The events. After an error event, the error is raised."""
        try:
            while (piece := await self._pieces.get()) is not None:
                while (event := await piece.get()) is not None:
                    yield event
                    if isinstance(event, VoiceStreamEventError):
                        raise event.error
            yield VoiceStreamEventLifecycle("session_ended")
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Cancel all work on this result."""
        tasks = set(self._speaking)
        if self.text_generation_task is not None:
            tasks.add(self.text_generation_task)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def say(self, text: str) -> None:
        """Add text to the turn. Each sentence is spoken when it is complete."""
        self._begin_turn()
        self.total_output_text += text
        spoken, self._waiting = self.tts_settings.text_splitter(self._waiting + text)
        if spoken:
            self._speak(spoken)

    async def end_turn(self) -> None:
        """Speak the remaining text, and wait until everything is spoken."""
        if self._waiting:
            self._speak(self._waiting)
            self._waiting = ""
        while self._speaking:
            await asyncio.wait(self._speaking)
        if self._group is not None:
            self._group.finish()
            self._group = None
            self._show(VoiceStreamEventLifecycle("turn_ended"))

    def end(self, error: Exception | None = None) -> None:
        """End the stream."""
        if self._group is not None:
            self._group.finish()
            self._group = None
        if error is not None:
            self._show(VoiceStreamEventError(error))
        self._pieces.put_nowait(None)

    def _begin_turn(self) -> None:
        if self._group is None:
            self._group = speech_group_span()
            self._group.start()
            self._show(VoiceStreamEventLifecycle("turn_started"))

    def _show(self, event: VoiceStreamEvent) -> None:
        piece: asyncio.Queue[VoiceStreamEvent | None] = asyncio.Queue()
        piece.put_nowait(event)
        piece.put_nowait(None)
        self._pieces.put_nowait(piece)

    def _speak(self, text: str) -> None:
        piece: asyncio.Queue[VoiceStreamEvent | None] = asyncio.Queue()
        self._pieces.put_nowait(piece)
        task = asyncio.create_task(self._spoken(text, piece))
        self._speaking.add(task)
        task.add_done_callback(self._speaking.discard)

    async def _spoken(self, text: str, piece: asyncio.Queue[VoiceStreamEvent | None]) -> None:
        shows_text = self._config.trace_include_sensitive_data
        settings = self.tts_settings
        heard = b""
        with speech_span(
            model=self.tts_model.model_name,
            input=text if shows_text else "",
            model_config={
                "voice": settings.voice,
                "instructions": self.instructions if shows_text else None,
                "speed": settings.speed,
            },
            parent=self._group,
        ) as span:
            try:
                waiting: list[bytes] = []
                async for chunk in self.tts_model.run(text, settings):
                    span.span_data.first_content_at = span.span_data.first_content_at or time_iso()
                    heard += chunk
                    waiting += [chunk] if chunk else []
                    if len(waiting) >= settings.buffer_size:
                        waiting = self._audio(waiting, piece)
                self._audio(waiting, piece, is_last=True)
                shows_audio = self._config.trace_include_sensitive_audio_data
                span.span_data.output = base64.b64encode(heard).decode() if shows_audio else ""
            except Exception as exc:
                said = str(exc) if shows_text else "Error details are redacted."
                span.set_error({"message": said, "data": {"text": text if shows_text else ""}})
                piece.put_nowait(VoiceStreamEventError(exc))
            finally:
                piece.put_nowait(None)

    def _audio(
        self,
        chunks: list[bytes],
        piece: asyncio.Queue[VoiceStreamEvent | None],
        *,
        is_last: bool = False,
    ) -> list[bytes]:
        """Show whole samples; gives the half of one that is left."""
        data = b"".join(chunks)
        if is_last and len(data) % 2:
            data += b"\0"
        whole, rest = data[: len(data) // 2 * 2], data[len(data) // 2 * 2 :]
        if whole:
            samples = _samples(whole, self.tts_settings.dtype)
            if self.tts_settings.transform_data is not None:
                samples = self.tts_settings.transform_data(samples)
            piece.put_nowait(VoiceStreamEventAudio(samples))
        return [rest] if rest else []


def _samples(data: bytes, dtype: Any) -> Any:
    samples = np.frombuffer(data, dtype="<i2").astype(np.int16)
    try:
        wanted = np.dtype(dtype)
    except (TypeError, ValueError) as exc:
        raise UserError("Invalid output dtype") from exc
    if wanted == np.int16:
        return samples
    if wanted == np.float32:
        return (samples.astype(np.float32) / 32767.0).reshape(-1, 1)
    raise UserError("Invalid output dtype")
