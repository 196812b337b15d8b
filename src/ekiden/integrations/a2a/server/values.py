"""Between our values and those of the A2A protocol."""

from __future__ import annotations

from json import loads
from typing import Any

from a2a.types import Message, Part, Role
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from ekiden.core.values import dumps, new_id

JSON = "application/json"
TEXT = "text/plain"


def clean(text: str) -> str:
    """The text without what UTF-8 cannot say."""
    return text.encode("utf-8", "replace").decode("utf-8")


def text_part(text: str) -> Part:
    """A text."""
    return Part(text=clean(text), media_type=TEXT)


def data_part(value: Any) -> Part:
    """JSON; as a text where the protocol has no room for it, such as very deep nesting."""
    text = clean(dumps(value))
    try:
        return Part(data=ParseDict(loads(text), Value()), media_type=JSON)
    except (ParseError, ValueError, RecursionError):
        return Part(text=text, media_type=JSON)


def output_part(output: Any) -> Part:
    """What a run gave."""
    return text_part(output) if isinstance(output, str) else data_part(output)


def struct(values: dict[str, Any]) -> Struct:
    """Facts that go along."""
    made = Struct()
    made.update(values)
    return made


def timestamp(seconds: float) -> Timestamp:
    """A moment."""
    made = Timestamp()
    made.FromMicroseconds(int(seconds * 1e6))
    return made


def agent_message(parts: list[Part], *, task_id: str, context_id: str) -> Message:
    """Something that we say."""
    return Message(
        message_id=new_id("msg"),
        role=Role.ROLE_AGENT,
        parts=parts,
        task_id=task_id,
        context_id=context_id,
    )


def data_of(part: Part) -> Any:
    """The JSON of a part with data."""
    return MessageToDict(part.data)
