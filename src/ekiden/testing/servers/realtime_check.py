"""What the real API refuses, the scripted realtime server refuses too."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Collection
from typing import Any

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTS = {
    "user": {"input_text", "input_audio", "input_image"},
    "assistant": {"output_text", "output_audio"},
    "system": {"input_text"},
}
_MAX_ID = 32


class BadFrame(Exception):
    """A frame of the client's that is refused."""

    def __init__(self, message: str, *, code: str = "invalid_value", param: str = "") -> None:
        super().__init__(message)
        self.code, self.param = code, param


def check_frame(frame: Any, *, open_calls: Collection[str], item_ids: Collection[str]) -> None:
    """`BadFrame` for what the API would not take; the conversation so far says which calls are
    open and which items there are."""
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
