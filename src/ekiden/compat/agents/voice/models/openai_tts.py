"""OpenAI's speech."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from openai import AsyncOpenAI, omit

from ekiden.compat.agents.voice.model import TTSModel, TTSModelSettings

DEFAULT_VOICE = "ash"
_PIECE_BYTES = 1024


class OpenAITTSModel(TTSModel):
    """Converts text to speech with OpenAI's audio API."""

    def __init__(self, model: str, openai_client: AsyncOpenAI) -> None:
        self.model = model
        self._client = openai_client

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self.model

    async def run(self, text: str, settings: TTSModelSettings) -> AsyncIterator[bytes]:
        """The speech as 16-bit PCM, piece by piece."""
        voice: Any = settings.voice or DEFAULT_VOICE
        async with self._client.audio.speech.with_streaming_response.create(
            model=self.model,
            voice=voice,
            input=text,
            response_format="pcm",
            speed=omit if settings.speed is None else settings.speed,
            extra_body={"instructions": settings.instructions},
        ) as answer:
            async for piece in answer.iter_bytes(chunk_size=_PIECE_BYTES):
                yield piece
