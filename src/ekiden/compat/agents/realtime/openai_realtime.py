"""OpenAI's realtime models, over a WebSocket."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NotRequired, TypeAlias
from urllib.parse import quote, urlsplit

from openai.types.realtime import (
    RealtimeAudioConfig,
    RealtimeAudioConfigInput,
    RealtimeAudioConfigOutput,
    RealtimeServerEvent,
)
from openai.types.realtime.realtime_audio_formats import AudioPCM, AudioPCMA, AudioPCMU
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.logger import log_model_action_error, logger
from ekiden.compat.agents.realtime.audio_formats import audio_ms, to_realtime_audio_format
from ekiden.compat.agents.realtime.config import RealtimeSessionModelSettings
from ekiden.compat.agents.realtime.items import read_item
from ekiden.compat.agents.realtime.model import (
    RealtimeModel,
    RealtimeModelConfig,
    RealtimeModelListener,
    RealtimePlaybackTracker,
)
from ekiden.compat.agents.realtime.model_events import (
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelCachedTokensDetails,
    RealtimeModelConnectionStatusEvent,
    RealtimeModelEndOfStreamEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelExceptionEvent,
    RealtimeModelInputAudioTimeoutTriggeredEvent,
    RealtimeModelInputTokensDetails,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOutputTokensDetails,
    RealtimeModelRawServerEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeModelUsageEvent,
)
from ekiden.compat.agents.realtime.model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from ekiden.compat.agents.usage import from_native
from ekiden.core.conversation.model import ToolSpec
from ekiden.core.values import loads, new_id
from ekiden.integrations.realtime import (
    RealtimeDisconnected,
    RealtimeModelSettings,
    RealtimeSetup,
    items as native,
    model as native_inputs,
)
from ekiden.integrations.realtime.model import ResponseGate
from ekiden.integrations.realtime.websocket import (
    DEFAULT_URL,
    RealtimeWebSocketModel,
    WebSocketConnection,
)
from ekiden.integrations.realtime.wire import decode, first_frame

OpenAIRealtimeAudioConfig = RealtimeAudioConfig
OpenAIRealtimeAudioInput = RealtimeAudioConfigInput
OpenAIRealtimeAudioOutput = RealtimeAudioConfigOutput

FormatInput: TypeAlias = str | AudioPCM | AudioPCMU | AudioPCMA | Mapping[str, Any] | None
AllRealtimeServerEvents = Annotated[RealtimeServerEvent, Field(discriminator="type")]
ServerEventTypeAdapter: TypeAdapter[Any] | None = None
DEFAULT_REALTIME_MODEL = "gpt-realtime-2.1"
DEFAULT_MODEL_SETTINGS: RealtimeSessionModelSettings = {
    "voice": "ash",
    "modalities": ["audio"],
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "gpt-4o-mini-transcribe"},
    "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
}
_MOST_BYTES = 8 * 1024 * 1024


class TransportConfig(TypedDict):
    """Options of the WebSocket."""

    ping_interval: NotRequired[float | None]
    ping_timeout: NotRequired[float | None]
    handshake_timeout: NotRequired[float]
    max_size: NotRequired[int | None]
    """The largest message that is read; 8 MiB by default."""


def get_server_event_type_adapter() -> TypeAdapter[Any]:
    """Validates messages of the API as OpenAI's own types."""
    global ServerEventTypeAdapter
    if ServerEventTypeAdapter is None:
        ServerEventTypeAdapter = TypeAdapter(AllRealtimeServerEvents)
    return ServerEventTypeAdapter


async def get_api_key(key: str | Callable[[], Any] | None) -> str | None:
    """The key, or the result of a function that returns it. The default is ``OPENAI_API_KEY``."""
    if callable(key):
        found = key()
        return await found if inspect.isawaitable(found) else found  # type: ignore[no-any-return]
    return key if isinstance(key, str) else os.environ.get("OPENAI_API_KEY")


def session_frame(given: RealtimeSessionModelSettings, *, is_call: bool = False) -> dict[str, Any]:
    """The ``session.update`` for these settings; a call that exists keeps its audio formats."""
    defaults: dict[str, Any] = dict(DEFAULT_MODEL_SETTINGS)
    if is_call:
        del defaults["input_audio_format"], defaults["output_audio_format"]
    settings: dict[str, Any] = {**defaults, **given}
    audio = settings.get("audio") or {}
    heard, spoken = dict(audio.get("input") or {}), dict(audio.get("output") or {})
    for parts, name, key in (
        (heard, "format", "input_audio_format"),
        (heard, "transcription", "input_audio_transcription"),
        (heard, "turn_detection", "turn_detection"),
        (heard, "noise_reduction", "input_audio_noise_reduction"),
        (spoken, "format", "output_audio_format"),
        (spoken, "voice", "voice"),
        (spoken, "speed", "speed"),
    ):
        if name not in parts and key in settings:
            parts[name] = settings[key]
    for parts in (heard, spoken):
        known = to_realtime_audio_format(parts.pop("format", None))
        if known is not None:
            parts["format"] = known.model_dump(exclude_none=True)
    extra = {
        name: settings[name]
        for name in ("parallel_tool_calls", "reasoning", "tracing")
        if settings.get(name) is not None
    }
    chosen = settings.get("model_name")
    model = {} if is_call or not chosen else {"model": chosen}
    setup = RealtimeSetup(
        instructions=settings.get("instructions"),
        tools=tuple(_spec(each) for each in _offered(settings)),
        prompt=settings.get("prompt") or None,
    )
    choice = settings.get("tool_choice")
    plain = RealtimeModelSettings(
        output_modalities=settings.get("output_modalities") or settings.get("modalities"),
        tool_choice=choice if isinstance(choice, str) else None,
        max_output_tokens=settings.get("max_output_tokens"),
        extra={**model, "audio": {"input": heard, "output": spoken}, **extra},
    )
    return dict(first_frame(setup, plain))


def _offered(settings: Mapping[str, Any]) -> Iterator[Any]:
    yield from settings.get("tools") or ()
    yield from settings.get("handoffs") or ()


def _spec(offer: Any) -> ToolSpec:
    if hasattr(offer, "input_json_schema"):
        name, about, schema = offer.tool_name, offer.tool_description, offer.input_json_schema
    elif hasattr(offer, "params_json_schema"):
        name, about, schema = offer.name, offer.description, offer.params_json_schema
    else:
        raise UserError(
            f"a live session cannot use the tool {getattr(offer, 'name', offer)!r}: only function "
            "tools and handoffs"
        )
    return ToolSpec(name=name, description=about, parameters=schema)


class OpenAIRealtimeWebSocketModel(RealtimeModel):
    """A model of OpenAI's Realtime API, or of a server with the same API."""

    def __init__(self, *, transport_config: TransportConfig | None = None) -> None:
        self.model = DEFAULT_REALTIME_MODEL
        self._transport: TransportConfig = transport_config or {}
        self._listeners: list[RealtimeModelListener] = []
        self._connection: WebSocketConnection | None = None
        self._gate: ResponseGate | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_call = False
        self._playback = _Playback(None)
        self._server_interrupts = True
        """Whether the server cancels the answer when the person begins to speak."""
        self._calls: deque[str] = deque(maxlen=64)

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect and send the settings. From then on, listeners get the events."""
        if self._connection is not None:
            raise AssertionError("the model is connected already: close it first")
        settings = options.get("initial_model_settings") or {}
        self.model = settings.get("model_name", self.model)
        call_id = options.get("call_id")
        self._is_call = bool(call_id)
        address = urlsplit(options.get("url") or DEFAULT_URL)
        query = f"call_id={quote(call_id)}" if call_id else f"model={quote(self.model)}"
        key = options.get("api_key")
        headers = options.get("headers")
        socket = RealtimeWebSocketModel(
            self.model,
            url=address._replace(query="", fragment="").geturl(),
            api_key=None if key is None or headers else await get_api_key(key),
            headers=headers,
            connect_timeout_s=self._transport.get("handshake_timeout", 10.0),
            max_frame_bytes=self._transport.get("max_size", _MOST_BYTES),
        )
        frame = session_frame(settings, is_call=self._is_call)
        self._playback = _Playback(options.get("playback_tracker"))
        self._read_settings(frame)
        pings = ("ping_interval", "ping_timeout")
        self._connection = await socket.open(
            frame,
            query=address.query or query,
            decode=_decode,
            **{name: self._transport[name] for name in pings if name in self._transport},  # type: ignore[literal-required]
        )
        self._gate = ResponseGate(self._connection)
        await self._tell(RealtimeModelConnectionStatusEvent(status="connected"))
        self._reading = asyncio.create_task(self._read(self._connection))

    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Send events of the model to this listener."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Stop sending events to this listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Send an event to the model."""
        if self._connection is None or self._gate is None:
            raise AssertionError("the model is not connected")
        send, gate = self._connection.send, self._gate
        match event:
            case RealtimeModelSendRawMessage(message=message):
                body = {"type": message["type"], **(message.get("other_data") or {})}
                await send(native_inputs.RealtimeModelSendRawMessage(message=body))
            case RealtimeModelSendUserInput(user_input=said):
                content = (
                    [{"type": "input_text", "text": said}]
                    if isinstance(said, str)
                    else said["content"]
                )
                await send(
                    native_inputs.RealtimeModelSendUserInput(
                        item_id=new_id("msg"), content=tuple(dict(each) for each in content)
                    )
                )
                await gate.request()
            case RealtimeModelSendAudio(audio=audio, commit=commit):
                await send(native_inputs.RealtimeModelSendAudio(audio=audio, commit=commit))
            case RealtimeModelSendToolOutput():
                await send(
                    native_inputs.RealtimeModelSendToolOutput(
                        tool_call=event.tool_call,  # type: ignore[arg-type]
                        output=event.output,
                    )
                )
                if event.start_response:
                    await gate.request()
            case RealtimeModelSendInterrupt():
                await self._interrupt(event)
            case RealtimeModelSendSessionUpdate(session_settings=settings):
                frame = session_frame(settings, is_call=self._is_call)
                frame["session"].pop("model", None)
                self._read_settings(frame)
                await send(native_inputs.RealtimeModelSendRawMessage(message=frame))

    async def send_event_if(
        self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """Send an event to the model if `send_if` returns true."""
        if not send_if():
            return False
        await self.send_event(event)
        return True

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        reading, self._reading = self._reading, None
        if reading is not None and reading is not asyncio.current_task():
            reading.cancel()
            await asyncio.wait((reading,))

    def _read_settings(self, frame: Mapping[str, Any]) -> None:
        self._playback.format_from(frame)
        detection = frame["session"]["audio"]["input"].get("turn_detection") or {}
        self._server_interrupts = detection.get("interrupt_response", True)

    async def _interrupt(self, event: RealtimeModelSendInterrupt) -> None:
        if not event.cancel_response_only:
            await self._stop_playing(event.response_id)
        assert self._gate is not None
        if self._gate.is_busy and not event.playback_only:
            answer = {} if event.response_id is None else {"response_id": event.response_id}
            await self._raw({"type": "response.cancel", **answer})

    async def _stop_playing(self, response_id: str | None = None) -> None:
        """Have the model forget what was not heard of its answer."""
        stopped = self._playback.stop(response_id)
        if stopped is None:
            return
        item_id, index, heard_ms = stopped
        await self._tell(RealtimeModelAudioInterruptedEvent(item_id=item_id, content_index=index))
        await self._raw(
            {
                "type": "conversation.item.truncate",
                "item_id": item_id,
                "content_index": index,
                "audio_end_ms": heard_ms,
            }
        )

    async def _raw(self, message: Mapping[str, Any]) -> None:
        if self._connection is not None:
            await self._connection.send(native_inputs.RealtimeModelSendRawMessage(message=message))

    async def _tell(self, event: RealtimeModelEvent) -> None:
        for listener in tuple(self._listeners):
            await listener.on_event(event)

    async def _read(self, connection: WebSocketConnection) -> None:
        try:
            async for event in connection.events():
                await self._on(event)
        except RealtimeDisconnected as exc:
            cause = exc.__cause__ if isinstance(exc.__cause__, Exception) else exc
            await self._tell(RealtimeModelExceptionEvent(exception=cause, context=str(exc)))
        except Exception as exc:
            log_model_action_error(logger, "a listener of a realtime model failed", exc)
            await self._tell(RealtimeModelExceptionEvent(exception=exc))
        await self._tell(RealtimeModelConnectionStatusEvent(status="disconnected"))
        await self._tell(RealtimeModelEndOfStreamEvent())

    async def _on(self, event: Any) -> None:
        assert self._gate is not None
        if isinstance(event, native.RealtimeModelSpeechStartedEvent):
            is_speaking = self._playback.is_speaking
            await self._stop_playing()
            if is_speaking and not self._server_interrupts and self._gate.is_busy:
                await self._raw({"type": "response.cancel"})
            return
        if isinstance(event, RealtimeModelErrorEvent):
            if isinstance(event.error, Exception) and self._gate.failed(event.error):
                return
        elif isinstance(event, RealtimeModelTurnStartedEvent):
            self._gate.started()
        elif isinstance(event, RealtimeModelAudioEvent):
            self._playback.add(event)
        elif isinstance(event, RealtimeModelToolCallEvent):
            if event.call_id in self._calls:  # It is reported again when the answer is over.
                return
            self._calls.append(event.call_id)
        await self._tell(event)
        if isinstance(event, RealtimeModelTurnEndedEvent):
            await self._gate.ended(continues=False)


class OpenAIRealtimeSIPModel(OpenAIRealtimeWebSocketModel):
    """Like `OpenAIRealtimeWebSocketModel`, for a phone call that OpenAI accepted; `connect` needs
    its ``call_id``."""

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Join the call."""
        if not options.get("call_id"):
            raise UserError("OpenAIRealtimeSIPModel needs the `call_id` of the call that it joins")
        await super().connect(options)


class _Playback:
    """How much of the model's speech was heard: as a tracker says, else as if played at once."""

    def __init__(self, tracker: RealtimePlaybackTracker | None) -> None:
        self._tracker = tracker
        self._format: Any = None
        self._item: tuple[str, int] | None = None
        self._response_id: str | None = None
        self._since = 0.0
        self._length_ms = 0.0

    @property
    def is_speaking(self) -> bool:
        """Whether audio arrived since the last interruption."""
        return self._item is not None

    def format_from(self, frame: Mapping[str, Any]) -> None:
        """Take the format from the settings that were sent."""
        self._format = frame["session"].get("audio", {}).get("output", {}).get("format")
        if self._tracker is not None and self._format is not None:
            self._tracker.set_audio_format(self._format)

    def add(self, event: RealtimeModelAudioEvent) -> None:
        """Audio arrived."""
        item = (event.item_id, event.content_index)
        if item != self._item:
            self._item, self._since, self._length_ms = item, time.monotonic(), 0.0
            self._response_id = event.response_id
        self._length_ms += audio_ms(self._format, event.data)

    def stop(self, response_id: str | None) -> tuple[str, int, int] | None:
        """Nothing more is played: what was playing, and how many milliseconds were heard."""
        if self._item is None or response_id not in (None, self._response_id):
            return None
        (item_id, index), heard = self._item, (time.monotonic() - self._since) * 1000
        self._item = None
        if self._tracker is not None:
            state = self._tracker.get_state()
            self._tracker.on_interrupted()
            item_id = state["current_item_id"] or item_id
            index = state["current_item_content_index"] or 0
            heard = state["elapsed_ms"] or 0.0
        elif heard >= self._length_ms:
            return None  # All of it was heard.
        return item_id, index, int(min(heard, self._length_ms))


def _decode(text: str | bytes) -> Iterator[Any]:
    """What a frame means in the SDK's events; the frame itself comes first."""
    frame: Any = None
    try:
        frame = loads(text)
    except ValueError:
        logger.debug("a realtime model sent a frame that is not JSON")
    else:
        yield RealtimeModelRawServerEvent(data=frame)
    kind = frame.get("type") if isinstance(frame, dict) else None
    if kind == "input_audio_buffer.timeout_triggered":
        yield RealtimeModelInputAudioTimeoutTriggeredEvent(
            item_id=frame["item_id"],
            audio_start_ms=frame["audio_start_ms"],
            audio_end_ms=frame["audio_end_ms"],
        )
        return
    for event in decode(text):
        match event:
            case native.RealtimeModelTurnStartedEvent(response_id=response_id):
                yield RealtimeModelTurnStartedEvent(response_id=response_id)
            case native.RealtimeModelToolCallEvent():
                yield RealtimeModelToolCallEvent(
                    name=event.name,
                    call_id=event.call_id,
                    arguments=event.arguments,
                    id=event.item_id,
                )
            case native.RealtimeModelTurnEndedEvent():
                if event.usage.requests:
                    yield _usage(event.usage, frame["response"]["usage"])
                yield RealtimeModelTurnEndedEvent(response_id=event.response_id)
            case native.RealtimeModelItemUpdatedEvent():
                item = read_item(frame["item"], frame.get("previous_item_id"))
                if item is not None:
                    yield RealtimeModelItemUpdatedEvent(item=item)
            case native.RealtimeModelOtherEvent():
                pass
            case _:
                yield event


def _usage(usage: Any, counts: Mapping[str, Any]) -> RealtimeModelUsageEvent:
    given, made = counts.get("input_token_details"), counts.get("output_token_details")
    kinds = ("text_tokens", "audio_tokens", "image_tokens")

    def known(details: Mapping[str, Any], *names: str) -> dict[str, Any]:
        return {name: details.get(name) for name in names}

    heard = said = None
    if given:
        cached = given.get("cached_tokens_details")
        heard = RealtimeModelInputTokensDetails(
            **known(given, *kinds, "cached_tokens"),
            cached_tokens_details=cached
            and RealtimeModelCachedTokensDetails(**known(cached, *kinds)),
        )
    if made:
        said = RealtimeModelOutputTokensDetails(**known(made, *kinds[:2]))
    return RealtimeModelUsageEvent(
        usage=from_native(usage), input_tokens_details=heard, output_tokens_details=said
    )
