"""OpenAI's transcription: of a recording over HTTP, of live speech over a WebSocket."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI, omit

from ekiden.compat.agents.tracing import transcription_span
from ekiden.compat.agents.voice.exceptions import STTWebsocketConnectionError
from ekiden.compat.agents.voice.imports import websockets
from ekiden.compat.agents.voice.input import AudioInput, StreamedAudioInput, pcm16
from ekiden.compat.agents.voice.model import (
    StreamedTranscriptionSession,
    STTModel,
    STTModelSettings,
)

EVENT_INACTIVITY_TIMEOUT = 1000
SESSION_CREATION_TIMEOUT = 10
SESSION_UPDATE_TIMEOUT = 10
DEFAULT_TURN_DETECTION = {"type": "semantic_vad"}
_SEVERAL_LANGUAGES = ("gpt-transcribe", "gpt-live-transcribe")


@dataclass
class ErrorSentinel:
    """Marks a failure in a queue."""

    error: Exception


class SessionCompleteSentinel:
    """Marks the end of a session in a queue."""


class WebsocketDoneSentinel:
    """Marks the end of a connection in a queue."""


class OpenAISTTTranscriptionSession(StreamedTranscriptionSession):
    """Transcribes live speech over one WebSocket. The server detects the end of each turn."""

    def __init__(
        self,
        input: StreamedAudioInput,
        client: AsyncOpenAI,
        model: str,
        settings: STTModelSettings,
        trace_include_sensitive_data: bool,
        trace_include_sensitive_audio_data: bool,
    ) -> None:
        self.connected = False
        self._input, self._client, self._model = input, client, model
        self._settings = settings
        self._traces_text = trace_include_sensitive_data
        self._traces_audio = trace_include_sensitive_audio_data
        self._heard: list[bytes] = []
        self._socket: Any = None
        self._closed = asyncio.Event()

    def _transcription(self) -> dict[str, Any]:
        given = self._settings
        languages = given.languages
        if languages is None and given.language and self._model in _SEVERAL_LANGUAGES:
            languages = [given.language]
        found = {
            "model": self._model,
            "languages": languages,
            "language": given.language if languages is None else None,
            "prompt": given.prompt,
            "keywords": given.keywords,
        }
        return {key: value for key, value in found.items() if value is not None}

    async def transcribe_turns(self) -> AsyncIterator[str]:
        """The transcript of each turn."""
        address = str(self._client.base_url).replace("http", "ws", 1).rstrip("/")
        headers = {
            key: value
            for key, value in {**self._client.auth_headers, **self._client.default_headers}.items()
            if isinstance(value, str)
        }
        async with websockets.connect(
            f"{address}/realtime?intent=transcription", additional_headers=headers
        ) as socket:
            self._socket = socket
            await self._begin(socket)
            self.connected = True
            sending = asyncio.create_task(self._send_audio(socket))
            try:
                async for text in self._turns(socket, sending):
                    yield text
            finally:
                sending.cancel()
                await asyncio.wait({sending})

    async def _begin(self, socket: Any) -> None:
        """Configure the session, once the server has made it."""
        await _expect(socket, "session.created", SESSION_CREATION_TIMEOUT)
        heard = {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": self._transcription(),
            "turn_detection": self._settings.turn_detection or DEFAULT_TURN_DETECTION,
        }
        session = {"type": "transcription", "audio": {"input": heard}}
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        await _expect(socket, "session.updated", SESSION_UPDATE_TIMEOUT)

    async def _send_audio(self, socket: Any) -> None:
        while (samples := await self._input.queue.get()) is not None:
            data = pcm16(samples)
            if self._traces_audio:
                self._heard.append(data)
            audio = base64.b64encode(data).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))

    async def _turns(self, socket: Any, sending: asyncio.Task[None]) -> AsyncIterator[str]:
        """Read until the input ended and all of it is transcribed."""
        messages = aiter(socket)
        reading: asyncio.Task[Any] | None = None
        open_items: set[str] = set()
        is_committed = is_all_heard = False
        try:
            while not (is_all_heard and not open_items):
                reading = reading or asyncio.ensure_future(_next(messages))
                waited: set[asyncio.Task[Any]] = {reading}
                if not is_committed:
                    waited.add(sending)
                await asyncio.wait(
                    waited, timeout=EVENT_INACTIVITY_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
                )
                if not reading.done():
                    if not sending.done() or is_committed:
                        raise STTWebsocketConnectionError("the transcription has become silent")
                    sending.result()
                    await socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
                    is_committed = True
                    continue
                message, reading = reading.result(), None
                if message is None:
                    return
                event = json.loads(message)
                kind, item = event.get("type", ""), str(event.get("item_id", ""))
                if kind == "error":
                    if (event.get("error") or {}).get("code") != "input_audio_buffer_commit_empty":
                        raise STTWebsocketConnectionError(f"transcription failed: {event}")
                    is_all_heard = True
                elif kind == "input_audio_buffer.committed":
                    open_items.add(item)
                    if is_committed:  # It may be an earlier piece: ask until nothing is left.
                        await socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
                elif kind.endswith("input_audio_transcription.failed"):
                    open_items.discard(item)
                elif kind.endswith("input_audio_transcription.completed"):
                    open_items.discard(item)
                    if event.get("transcript"):
                        self._trace(event["transcript"])
                        yield event["transcript"]
        finally:
            if reading is not None:
                reading.cancel()

    def _trace(self, text: str) -> None:
        heard, self._heard = b"".join(self._heard), []
        settings = {**self._transcription(), "turn_detection": self._settings.turn_detection}
        if not self._traces_text:
            settings = {k: v for k, v in settings.items() if k not in ("prompt", "keywords")}
        with transcription_span(
            model=self._model,
            input=base64.b64encode(heard).decode() if heard else None,
            output=text if self._traces_text else None,
            model_config=settings,
        ):
            pass

    async def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            with suppress(OSError):  # The server may have gone first.
                await self._socket.close()


async def _next(messages: AsyncIterator[Any]) -> Any:
    return await anext(messages, None)


async def _expect(socket: Any, kind: str, within_s: float) -> None:
    """Read until an event of that kind; raises `STTWebsocketConnectionError`."""
    try:
        async with asyncio.timeout(within_s):
            async for message in socket:
                event = json.loads(message)
                if event.get("type") == "error":
                    raise STTWebsocketConnectionError(f"transcription failed: {event}")
                if str(event.get("type", "")).removeprefix("transcription_") == kind:
                    return
    except TimeoutError as exc:
        raise STTWebsocketConnectionError(f"no {kind} within {within_s} s") from exc
    raise STTWebsocketConnectionError(f"the connection ended before {kind}")


class OpenAISTTModel(STTModel):
    """Transcribes with OpenAI's audio API."""

    def __init__(self, model: str, openai_client: AsyncOpenAI) -> None:
        self.model = model
        self._client = openai_client

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self.model

    async def transcribe(
        self,
        input: AudioInput,
        settings: STTModelSettings,
        trace_include_sensitive_data: bool,
        trace_include_sensitive_audio_data: bool,
    ) -> str:
        """The text of a recording."""
        knows_several = self.model == "gpt-transcribe" and settings.language
        shown = {"temperature": settings.temperature, "language": settings.language}
        if trace_include_sensitive_data:
            shown["prompt"] = settings.prompt
        with transcription_span(
            model=self.model,
            input=input.to_base64() if trace_include_sensitive_audio_data else "",
            model_config=shown,
        ) as span:
            answer: Any = await self._client.audio.transcriptions.create(
                model=self.model,
                file=input.to_audio_file(),
                prompt=omit if settings.prompt is None else settings.prompt,
                language=omit if knows_several or not settings.language else settings.language,
                extra_body={"languages": [settings.language]} if knows_several else None,
                temperature=omit if settings.temperature is None else settings.temperature,
            )
            if trace_include_sensitive_data:
                span.span_data.output = answer.text
            return str(answer.text)

    async def create_session(
        self,
        input: StreamedAudioInput,
        settings: STTModelSettings,
        trace_include_sensitive_data: bool,
        trace_include_sensitive_audio_data: bool,
    ) -> StreamedTranscriptionSession:
        """A session that transcribes a stream of speech."""
        return OpenAISTTTranscriptionSession(
            input,
            self._client,
            self.model,
            settings,
            trace_include_sensitive_data,
            trace_include_sensitive_audio_data,
        )
