"""Speech that goes in: recorded, or as it comes."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from dataclasses import dataclass
from typing import Any

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.voice.imports import np

DEFAULT_SAMPLE_RATE = 24000


def pcm16(buffer: Any) -> bytes:
    """Samples as 16-bit PCM; floats are between -1 and 1."""
    if buffer.dtype == np.float32:
        buffer = (np.clip(buffer, -1.0, 1.0) * 32767).astype("<i2")
    if buffer.dtype != np.int16:
        raise UserError("Buffer must be a numpy array of int16 or float32")
    return bytes(buffer.astype("<i2").tobytes())


def _widened(buffer: Any, width: int) -> bytes:
    """Samples with that many bytes each; one byte is unsigned, as WAV has it."""
    if width == 2:
        return pcm16(buffer)
    if buffer.dtype == np.float32:
        scaled = np.clip(buffer.astype(np.float64), -1.0, 1.0)
        samples = (scaled * 0x7FFF_FFFF).astype("<i4")
    else:
        samples = np.frombuffer(pcm16(buffer), "<i2").astype("<i4") << 16
    if width == 1:
        return bytes(((samples >> 24) + 128).astype(np.uint8).tobytes())
    return bytes(samples.view(np.uint8).reshape(-1, 4)[:, 4 - width :].tobytes())


@dataclass
class AudioInput:
    """Recorded speech."""

    buffer: Any
    """An array of int16 or float32."""
    frame_rate: int = DEFAULT_SAMPLE_RATE
    sample_width: int = 2
    channels: int = 1

    def to_audio_file(self) -> tuple[str, io.BytesIO, str]:
        """The recording as a WAV file: name, content and content type."""
        self._check()
        file = io.BytesIO()
        with wave.open(file, "wb") as wav:
            wav.setnchannels(self.channels)
            wav.setsampwidth(self.sample_width)
            wav.setframerate(self.frame_rate)
            wav.writeframes(_widened(self.buffer, self.sample_width))
        file.seek(0)
        return "audio.wav", file, "audio/wav"

    def _check(self) -> None:
        if self.sample_width not in (1, 2, 3, 4):
            raise UserError("Sample width must be between 1 and 4 bytes")
        if self.frame_rate <= 0 or self.channels <= 0:
            raise UserError("Frame rate and channels must be greater than zero")
        if self.buffer.dtype not in (np.int16, np.float32):
            raise UserError("Buffer must be a numpy array of int16 or float32")
        if self.buffer.size % self.channels:
            raise UserError("Buffer must contain complete channel frames")

    def to_base64(self) -> str:
        """The samples as 16-bit PCM in base64."""
        return base64.b64encode(pcm16(self.buffer)).decode()


class StreamedAudioInput:
    """A stream of speech."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()

    async def add_audio(self, audio: Any) -> None:
        """Add samples; `None` ends the input."""
        await self.queue.put(audio)
