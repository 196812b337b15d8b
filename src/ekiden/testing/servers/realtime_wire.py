"""Answers of a realtime model as the frames that its server sends."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ekiden.core.conversation.model import Item, Usage, text_of
from ekiden.testing.steps import pieces

Frame: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """An answer with everything that the wire needs to know of it."""

    response_id: str
    items: tuple[Item, ...]
    """Messages and calls, each with its ``id``; a call with its ``call_id``."""
    usage: Usage
    in_text: bool
    """Written rather than spoken."""
    chunks: int


def created(response_id: str) -> Frame:
    """The answer begins."""
    return {"type": "response.created", "response": _response(response_id, "in_progress", [])}


def answer_frames(spoken: Spoken) -> Iterator[Frame]:
    """Everything after `created`, ``response.done`` included."""
    finished = []
    for index, item in enumerate(spoken.items):
        done = _finished(item, spoken)
        empty: Frame = {"arguments": ""} if "arguments" in done else {"content": []}
        started = {**done, "status": "in_progress", **empty}
        where = {"response_id": spoken.response_id, "output_index": index}
        yield {"type": "response.output_item.added", **where, "item": started}
        yield {"type": "conversation.item.added", "previous_item_id": None, "item": started}
        parts = _arguments if done["type"] == "function_call" else _said
        yield from parts(done, {**where, "item_id": done["id"]}, spoken)
        yield {"type": "response.output_item.done", **where, "item": done}
        yield {"type": "conversation.item.done", "previous_item_id": None, "item": done}
        finished.append(done)
    yield {
        "type": "response.done",
        "response": {
            **_response(spoken.response_id, "completed", finished),
            "usage": _usage(spoken.usage),
        },
    }


def ended(response_id: str, status: str, details: Frame | None = None) -> Frame:
    """The answer is over, but not complete."""
    response = {**_response(response_id, status, []), "status_details": details}
    return {"type": "response.done", "response": response}


def heard_frames(item_id: str, transcript: str | None, *, detected: bool) -> Iterator[Frame]:
    """The person spoke; `detected` if the server noticed by itself, without being told."""
    if detected:
        started = {"audio_start_ms": 0, "item_id": item_id}
        yield {"type": "input_audio_buffer.speech_started", **started}
        stopped = {"audio_end_ms": 1000, "item_id": item_id}
        yield {"type": "input_audio_buffer.speech_stopped", **stopped}
    yield {"type": "input_audio_buffer.committed", "item_id": item_id, "previous_item_id": None}
    item = {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_audio", "transcript": None}],
    }
    yield {"type": "conversation.item.added", "previous_item_id": None, "item": item}
    if transcript is not None:
        yield {
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": item_id,
            "content_index": 0,
            "transcript": transcript,
            "usage": {"type": "duration", "seconds": 1},
        }


def error_frame(message: str, *, code: str, event_id: str | None, param: str | None) -> Frame:
    """The server complains."""
    error = {
        "type": "invalid_request_error",
        "code": code,
        "message": message,
        "param": param,
        "event_id": event_id,
    }
    return {"type": "error", "error": error}


def _response(response_id: str, status: str, output: list[Item]) -> Frame:
    return {
        "id": response_id,
        "object": "realtime.response",
        "status": status,
        "status_details": None,
        "output": output,
        "usage": None,
    }


def _finished(item: Item, spoken: Spoken) -> Item:
    head = {"id": item["id"], "object": "realtime.item", "status": "completed"}
    if item.get("type") == "function_call":
        call = {name: item[name] for name in ("type", "name", "call_id", "arguments")}
        return {**head, **call}
    text = text_of(item)
    part = {"type": "output_text", "text": text}
    if not spoken.in_text:
        part = {"type": "output_audio", "transcript": text}
    return {**head, "type": "message", "role": "assistant", "content": [part]}


def _arguments(item: Item, where: Frame, spoken: Spoken) -> Iterator[Frame]:
    kind, at = "response.function_call_arguments", {**where, "call_id": item["call_id"]}
    for text in pieces(item["arguments"], spoken.chunks):
        yield {"type": f"{kind}.delta", **at, "delta": text}
    yield {"type": f"{kind}.done", **at, "name": item["name"], "arguments": item["arguments"]}


def _said(item: Item, where: Frame, spoken: Spoken) -> Iterator[Frame]:
    [part] = item["content"]
    at = {**where, "content_index": 0}
    if spoken.in_text:
        for text in pieces(part["text"], spoken.chunks):
            yield {"type": "response.output_text.delta", **at, "delta": text}
        yield {"type": "response.output_text.done", **at, "text": part["text"]}
        return
    for text in pieces(part["transcript"], spoken.chunks):
        yield {"type": "response.output_audio_transcript.delta", **at, "delta": text}
        audio = b64encode(sound_of(text)).decode()
        yield {"type": "response.output_audio.delta", **at, "delta": audio}
    yield {"type": "response.output_audio.done", **at}
    done = {"type": "response.output_audio_transcript.done", "transcript": part["transcript"]}
    yield {**done, **at}


def sound_of(text: str) -> bytes:
    """What the scripted model's voice sounds like: the text's own bytes."""
    return text.encode("utf-8", "surrogatepass")


def _usage(usage: Usage) -> Frame:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_token_details": {"cached_tokens": usage.cached_tokens},
    }
