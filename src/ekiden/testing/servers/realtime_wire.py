"""The format of the Realtime API: script steps, frames, and the checks of the real API."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ekiden.core.conversation.model import Item, Usage, text_of
from ekiden.testing.servers.openai import Cut, Garbled, check_server_step
from ekiden.testing.steps import Step, StepLike, pieces, to_step

Frame: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAnswer:
    """An answer of the model."""

    response_id: str
    items: tuple[Item, ...]
    """Messages and calls with their ids."""
    usage: Usage
    is_text: bool
    """Whether the answer is text instead of speech."""
    chunks: int


def created(response_id: str) -> Frame:
    """The frame for the start of an answer."""
    return {"type": "response.created", "response": _response(response_id, "in_progress", [])}


def answer_frames(answer: RealtimeAnswer) -> Iterator[Frame]:
    """All frames after `created`, including ``response.done``."""
    finished = []
    for index, item in enumerate(answer.items):
        done = _finished(item, answer)
        empty: Frame = {"arguments": ""} if "arguments" in done else {"content": []}
        started = {**done, "status": "in_progress", **empty}
        where = {"response_id": answer.response_id, "output_index": index}
        yield {"type": "response.output_item.added", **where, "item": started}
        yield {"type": "conversation.item.added", "previous_item_id": None, "item": started}
        parts = _argument_frames if done["type"] == "function_call" else _content_frames
        yield from parts(done, {**where, "item_id": done["id"]}, answer)
        yield {"type": "response.output_item.done", **where, "item": done}
        yield {"type": "conversation.item.done", "previous_item_id": None, "item": done}
        finished.append(done)
    yield {
        "type": "response.done",
        "response": {
            **_response(answer.response_id, "completed", finished),
            "usage": _usage(answer.usage),
        },
    }


def ended(response_id: str, status: str, details: Frame | None = None) -> Frame:
    """The frame for the end of an answer without output."""
    response = {**_response(response_id, status, []), "status_details": details}
    return {"type": "response.done", "response": response}


def heard_frames(item_id: str, transcript: str | None, *, detected: bool) -> Iterator[Frame]:
    """The frames for the person's speech. With `detected`, the server detected the end of the
    speech."""
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
    """The frame for an error."""
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


def _finished(item: Item, answer: RealtimeAnswer) -> Item:
    head = {"id": item["id"], "object": "realtime.item", "status": "completed"}
    if item.get("type") == "function_call":
        call = {name: item[name] for name in ("type", "name", "call_id", "arguments")}
        return {**head, **call}
    text = text_of(item)
    part = {"type": "output_text", "text": text}
    if not answer.is_text:
        part = {"type": "output_audio", "transcript": text}
    return {**head, "type": "message", "role": "assistant", "content": [part]}


def _argument_frames(item: Item, where: Frame, answer: RealtimeAnswer) -> Iterator[Frame]:
    kind, at = "response.function_call_arguments", {**where, "call_id": item["call_id"]}
    for text in pieces(item["arguments"], answer.chunks):
        yield {"type": f"{kind}.delta", **at, "delta": text}
    yield {"type": f"{kind}.done", **at, "name": item["name"], "arguments": item["arguments"]}


def _content_frames(item: Item, where: Frame, answer: RealtimeAnswer) -> Iterator[Frame]:
    [part] = item["content"]
    at = {**where, "content_index": 0}
    if answer.is_text:
        for text in pieces(part["text"], answer.chunks):
            yield {"type": "response.output_text.delta", **at, "delta": text}
        yield {"type": "response.output_text.done", **at, "text": part["text"]}
        return
    for text in pieces(part["transcript"], answer.chunks):
        yield {"type": "response.output_audio_transcript.delta", **at, "delta": text}
        # The audio of a text is the bytes of the text itself.
        audio = b64encode(text.encode("utf-8", "surrogatepass")).decode()
        yield {"type": "response.output_audio.delta", **at, "delta": audio}
    yield {"type": "response.output_audio.done", **at}
    done = {"type": "response.output_audio_transcript.done", "transcript": part["transcript"]}
    yield {**done, **at}


def _usage(usage: Usage) -> Frame:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_token_details": {"cached_tokens": usage.cached_tokens},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A step in which the person says a text when audio arrives."""

    transcript: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A step that answers a request for a response with an error."""

    message: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTurn:
    """A step that starts a response and lets it fail."""

    message: str


RealtimeStep: TypeAlias = StepLike | Heard | Complaint | FailedTurn | Cut | Garbled
ServerStep: TypeAlias = Step | Heard | Complaint | FailedTurn | Cut | Garbled


def heard(transcript: str) -> Heard:
    """A step in which the person says `transcript`. The step is played when audio arrives or is
    committed."""
    return Heard(transcript=transcript)


def complain(message: str, *, code: str = "server_error") -> Complaint:
    """A step in which the server refuses one request for a response."""
    return Complaint(message=message, code=code)


def fail_turn(message: str) -> FailedTurn:
    """A step in which the model's answer fails after its start."""
    return FailedTurn(message=message)


def server_step(step: RealtimeStep) -> ServerStep:
    """Convert the step for the server. Raises `UserError` for a step that only a model can play."""
    if isinstance(step, Heard | Complaint | FailedTurn | Cut | Garbled):
        return step
    return check_server_step(to_step(step), instead="complain(), fail_turn() or cut()")


_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTS = {
    "user": {"input_text", "input_audio", "input_image"},
    "assistant": {"output_text", "output_audio"},
    "system": {"input_text"},
}
_MAX_ID = 32


class BadFrame(Exception):
    """A frame of the client that the server refuses."""

    def __init__(self, message: str, *, code: str = "invalid_value", param: str = "") -> None:
        super().__init__(message)
        self.code, self.param = code, param


def check_frame(frame: Any, *, open_calls: Collection[str], item_ids: Collection[str]) -> None:
    """Raise `BadFrame` for a frame that the real API refuses. `open_calls` and `item_ids` are the
    ids of the conversation so far."""
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise BadFrame("the message is not an object with a type", code="invalid_json")
    kind = frame["type"]
    check = _CHECKS.get(kind)
    if check is None:
        raise BadFrame(f"Invalid value: '{kind}'.", param="type")
    check(frame)
    if kind == "conversation.item.create":
        item = frame["item"]
        if item.get("id") in item_ids:
            raise BadFrame(f"Item with ID {item['id']} already exists.", code="item_exists")
        if item["type"] == "function_call_output" and item["call_id"] not in open_calls:
            raise BadFrame(
                f"Tool call ID '{item['call_id']}' not found in conversation.",
                code="invalid_tool_call_id",
            )
    if kind == "conversation.item.truncate" and frame["item_id"] not in item_ids:
        raise BadFrame(f"Item '{frame['item_id']}' not found.", code="item_not_found")


def _session(frame: dict[str, Any]) -> None:
    session = frame.get("session")
    if not isinstance(session, dict) or session.get("type") != "realtime":
        raise BadFrame("Missing required parameter: 'session.type'.", param="session.type")
    if not isinstance(session.get("instructions", ""), str):
        raise BadFrame("'session.instructions' must be text", param="session.instructions")
    names = [tool.get("name") for tool in session.get("tools") or ()]
    for tool in session.get("tools") or ():
        name, schema = tool.get("name"), tool.get("parameters")
        if tool.get("type") != "function" or not _TOOL_NAME.fullmatch(str(name)):
            raise BadFrame(f"Invalid tool {name!r}.", param="session.tools")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise BadFrame(f"Invalid schema for function {name!r}.", param="session.tools")
    if len(set(names)) != len(names):
        raise BadFrame("Tool names must be unique.", param="session.tools")


def _item(frame: dict[str, Any]) -> None:
    item = frame.get("item")
    if not isinstance(item, dict):
        raise BadFrame("Missing required parameter: 'item'.", param="item")
    if len(item.get("id") or "") > _MAX_ID:
        raise BadFrame("Invalid 'item.id': string too long.", param="item.id")
    if item.get("type") == "function_call_output":
        if not isinstance(item.get("output"), str) or not isinstance(item.get("call_id"), str):
            raise BadFrame("'item.output' and 'item.call_id' must be text", param="item.output")
        return
    known = _PARTS.get(str(item.get("role")))
    if item.get("type") != "message" or known is None:
        raise BadFrame("Invalid item.", param="item.type")
    for part in item.get("content") or ():
        if part.get("type") not in known:
            raise BadFrame(f"Invalid part {part.get('type')!r}.", param="item.content")


def _audio(frame: dict[str, Any]) -> None:
    try:
        b64decode(frame["audio"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise BadFrame("Invalid 'audio': not base64.", param="audio") from None


def _truncate(frame: dict[str, Any]) -> None:
    if not isinstance(frame.get("audio_end_ms"), int) or "content_index" not in frame:
        raise BadFrame("Invalid 'audio_end_ms'.", param="audio_end_ms")


def _anything(frame: dict[str, Any]) -> None:
    pass


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "session.update": _session,
    "conversation.item.create": _item,
    "conversation.item.truncate": _truncate,
    "input_audio_buffer.append": _audio,
    "input_audio_buffer.commit": _anything,
    "input_audio_buffer.clear": _anything,
    "response.create": _anything,
    "response.cancel": _anything,
}
