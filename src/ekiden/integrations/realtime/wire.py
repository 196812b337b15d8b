"""Converts events to frames of OpenAI's Realtime API, and frames to events."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, assert_never

from ekiden.core.conversation.model import ToolSpec, Usage
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.values import loads
from ekiden.integrations.realtime.items import (
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelSpeechStartedEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    as_text,
    read_item,
)
from ekiden.integrations.realtime.model import (
    RealtimeModelRequestResponse,
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendMessage,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeModelSettings,
    RealtimeServerError,
    RealtimeSetup,
)

Frame: TypeAlias = Mapping[str, Any]

_AUDIO_PIECE = 1024 * 1024
"""The maximum size of the audio in a frame, in bytes; providers refuse much larger frames."""
_SHOWN = 300
_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_MODES = frozenset({"auto", "none", "required"})
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, RecursionError, NotBase64)


def first_frame(setup: RealtimeSetup, settings: RealtimeModelSettings) -> Frame:
    """The ``session.update`` at the start of a conversation."""
    audio_input = {
        "format": _format(settings.input_audio_format),
        "transcription": settings.input_audio_transcription,
        "noise_reduction": settings.input_audio_noise_reduction,
        "turn_detection": settings.turn_detection,
    }
    audio_output = {
        "format": _format(settings.output_audio_format),
        "voice": settings.voice,
        "speed": settings.speed,
    }
    audio = {"input": _without_none(audio_input), "output": _without_none(audio_output)}
    if settings.turn_detection == "off":
        audio["input"]["turn_detection"] = None
    modalities = settings.output_modalities
    options = {
        "output_modalities": None if modalities is None else list(modalities),
        "tool_choice": _tool_choice(settings.tool_choice),
        "max_output_tokens": settings.max_output_tokens,
        "audio": {name: part for name, part in audio.items() if part} or None,
        "prompt": setup.prompt,
    }
    session = {**_session(setup), **_without_none(options), **settings.extra}
    return {"type": "session.update", "session": session}


def frames(event: RealtimeModelSendEvent) -> Iterator[Frame]:
    """The frames of an event, in order."""
    match event:
        case RealtimeModelSendUserInput():
            yield _message(event.item_id, "user", [dict(part) for part in event.content])
        case RealtimeModelSendMessage(role="assistant"):
            part = {"type": "output_text", "text": event.text}
            yield _message(event.item_id, "assistant", [part])
        case RealtimeModelSendMessage():
            yield _message(event.item_id, event.role, [{"type": "input_text", "text": event.text}])
        case RealtimeModelSendAudio():
            for start in range(0, len(event.audio), _AUDIO_PIECE):
                piece = b64encode(event.audio[start : start + _AUDIO_PIECE]).decode()
                yield {"type": "input_audio_buffer.append", "audio": piece}
            if event.commit:
                yield {"type": "input_audio_buffer.commit"}
        case RealtimeModelSendToolOutput():
            item = {
                "type": "function_call_output",
                "call_id": event.tool_call.call_id,
                "output": event.output,
            }
            yield {"type": "conversation.item.create", "item": item}
        case RealtimeModelSendSessionUpdate():
            session = _session(event.setup)
            if event.setup.prompt is not None or event.clears_prompt:
                session["prompt"] = event.setup.prompt
            yield {"type": "session.update", "session": session}
        case RealtimeModelRequestResponse():
            yield {"type": "response.create", "event_id": event.event_id}
        case RealtimeModelSendInterrupt():
            yield {"type": "response.cancel"}
            if event.item_id is not None and event.played_ms is not None:
                yield {
                    "type": "conversation.item.truncate",
                    "item_id": event.item_id,
                    "content_index": event.content_index,
                    "audio_end_ms": event.played_ms,
                }
        case RealtimeModelSendRawMessage():
            yield dict(event.message)
        case _:
            assert_never(event)


def decode(text: str | bytes) -> list[RealtimeModelEvent]:
    """Return the events of a frame. Unreadable data becomes a `RealtimeModelErrorEvent`."""
    try:
        if isinstance(text, bytes):
            raise ValueError("it is binary")
        frame = loads(text)
        kind = as_text(frame["type"])
    except _UNREADABLE as exc:
        return [_unreadable(exc, text)]
    reader = _READERS.get(kind)
    if reader is None:
        return [RealtimeModelOtherEvent(data=frame)]
    try:
        return list(reader(frame))
    except _UNREADABLE as exc:
        problem = _unreadable(exc, text)
    if kind == "response.done":  # The answer has ended, even if its details are unreadable.
        return [problem, RealtimeModelTurnEndedEvent(response_id="", status="failed")]
    return [problem]


def _unreadable(exc: Exception, shown: object) -> RealtimeModelErrorEvent:
    problem = f"{type(exc).__name__}: {exc}"[:_SHOWN]
    error = ModelBehaviorError(
        f"the realtime model sent something that cannot be read ({problem}): {shown!r:.300}"
    )
    error.__cause__ = exc
    return RealtimeModelErrorEvent(error=error)


def _session(setup: RealtimeSetup) -> dict[str, Any]:
    # An agent without instructions must not keep the instructions of the agent before it.
    tools = [_tool(spec) for spec in setup.tools]
    return {"type": "realtime", "instructions": setup.instructions or "", "tools": tools}


def _tool(spec: ToolSpec) -> Frame:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }


def _tool_choice(choice: str | None) -> Any:
    if choice is None or choice in _MODES:
        return choice
    return {"type": "function", "name": choice}


def _format(given: str | Mapping[str, Any] | None) -> Frame | None:
    if given is None or not isinstance(given, str):
        return given
    kind = _FORMATS.get(given, given)
    return {"type": kind, "rate": 24_000} if kind == "audio/pcm" else {"type": kind}


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _message(item_id: str, role: str, content: list[Any]) -> Frame:
    item = {"id": item_id, "type": "message", "role": role, "content": content}
    return {"type": "conversation.item.create", "item": item}


def _turn_started(frame: Frame) -> Iterator[RealtimeModelEvent]:
    yield RealtimeModelTurnStartedEvent(response_id=as_text(frame["response"]["id"]))


def _turn_ended(frame: Frame) -> Iterator[RealtimeModelEvent]:
    response = frame["response"]
    response_id, status = as_text(response["id"]), response.get("status")
    for item in response.get("output") or () if status == "completed" else ():
        try:
            if item["type"] == "function_call":
                yield _call(item, response_id)
        except _UNREADABLE as exc:
            yield _unreadable(exc, item)
    if status == "failed":
        error = ((response.get("status_details") or {}).get("error")) or {}
        reason = error.get("message") or error.get("code") or "no reason given"
        text = f"the realtime model could not answer: {reason}"
        yield RealtimeModelErrorEvent(
            error=RealtimeServerError(text, server_code=error.get("code") or error.get("type"))
        )
    if status not in ("completed", "cancelled", "failed"):
        status = "incomplete"
    yield RealtimeModelTurnEndedEvent(
        response_id=response_id, status=status, usage=_usage(response.get("usage"))
    )


def _item_done(frame: Frame) -> Iterator[RealtimeModelEvent]:
    item = frame["item"]
    yield from _item(frame)
    if item["type"] == "function_call" and item.get("status") == "completed":
        yield _call(item, as_text(frame["response_id"]))


def _item(frame: Frame) -> Iterator[RealtimeModelEvent]:
    item = read_item(frame["item"], frame.get("previous_item_id"))
    if item is None:
        yield RealtimeModelOtherEvent(data=frame)
    else:
        yield RealtimeModelItemUpdatedEvent(item=item)


def _call(item: Frame, response_id: str) -> RealtimeModelToolCallEvent:
    return RealtimeModelToolCallEvent(
        name=as_text(item["name"]),
        call_id=as_text(item["call_id"]),
        arguments=as_text(item.get("arguments") or ""),
        response_id=response_id,
        item_id=item.get("id"),
    )


def _audio(frame: Frame) -> Iterator[RealtimeModelEvent]:
    yield RealtimeModelAudioEvent(
        data=b64decode(as_text(frame["delta"]), validate=True),
        response_id=as_text(frame["response_id"]),
        item_id=as_text(frame["item_id"]),
        content_index=int(frame["content_index"]),
    )


def _audio_done(frame: Frame) -> Iterator[RealtimeModelEvent]:
    yield RealtimeModelAudioDoneEvent(
        item_id=as_text(frame["item_id"]), content_index=int(frame["content_index"])
    )


def _delta(kind: Callable[..., RealtimeModelEvent]) -> Callable[[Frame], Iterator[Any]]:
    def read(frame: Frame) -> Iterator[RealtimeModelEvent]:
        yield kind(
            item_id=as_text(frame["item_id"]),
            delta=as_text(frame["delta"]),
            response_id=as_text(frame["response_id"]),
        )

    return read


def _transcript(frame: Frame) -> Iterator[RealtimeModelEvent]:
    yield RealtimeModelInputAudioTranscriptionCompletedEvent(
        item_id=as_text(frame["item_id"]), transcript=as_text(frame["transcript"])
    )


def _speech(frame: Frame) -> Iterator[RealtimeModelEvent]:
    yield RealtimeModelSpeechStartedEvent()


def _deleted(frame: Frame) -> Iterator[RealtimeModelEvent]:
    yield RealtimeModelItemDeletedEvent(item_id=as_text(frame["item_id"]))


def _error(frame: Frame) -> Iterator[RealtimeModelEvent]:
    details = frame["error"]
    error = RealtimeServerError(
        f"the realtime model complains: {details.get('message') or details.get('code')}",
        server_code=details.get("code") or details.get("type"),
        event_id=details.get("event_id"),
    )
    yield RealtimeModelErrorEvent(error=error)


def _usage(counts: Mapping[str, Any] | None) -> Usage:
    if not counts:
        return Usage()
    details = counts.get("input_token_details") or {}
    return Usage(
        requests=1,
        input_tokens=int(counts.get("input_tokens") or 0),
        output_tokens=int(counts.get("output_tokens") or 0),
        total_tokens=int(counts.get("total_tokens") or 0),
        cached_tokens=int(details.get("cached_tokens") or 0),
    )


_READERS: dict[str, Callable[[Frame], Iterator[RealtimeModelEvent]]] = {
    "error": _error,
    "response.created": _turn_started,
    "response.done": _turn_ended,
    "response.output_item.done": _item_done,
    "conversation.item.added": _item,
    "conversation.item.created": _item,
    "conversation.item.done": _item,
    "conversation.item.deleted": _deleted,
    "conversation.item.input_audio_transcription.completed": _transcript,
    "input_audio_buffer.speech_started": _speech,
    "response.output_audio.delta": _audio,
    "response.audio.delta": _audio,
    "response.output_audio.done": _audio_done,
    "response.audio.done": _audio_done,
    "response.output_audio_transcript.delta": _delta(RealtimeModelTranscriptDeltaEvent),
    "response.audio_transcript.delta": _delta(RealtimeModelTranscriptDeltaEvent),
    "response.output_text.delta": _delta(RealtimeModelOutputTextDeltaEvent),
    "response.text.delta": _delta(RealtimeModelOutputTextDeltaEvent),
}
"""The readers by type of frame. A name of the preview version follows its current name."""
