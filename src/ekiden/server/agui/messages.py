"""Messages of AG-UI as items of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.errors.server import RequestInvalid
from ekiden.core.items import Item, assistant_message, text_of

_SPOKEN = ("system", "developer", "user")
_LEFT_OUT = ("tool", "activity", "reasoning")
"""The session has its own record of these."""


def read_messages(messages: Sequence[Mapping[str, Any]]) -> list[Item]:
    """What was said; `RequestInvalid` says which message cannot be used and why."""
    return [item for place, each in enumerate(messages) if (item := _item(each, place))]


def is_said(item: Item) -> bool:
    """Whether it is a message of the user's that says something."""
    if item.get("role") != "user":
        return False
    parts = item["content"] if isinstance(item["content"], list) else ()
    return bool(text_of(item).strip()) or any(part["type"] != "input_text" for part in parts)


def _item(message: Mapping[str, Any], place: int) -> Item | None:
    role, content, where = message.get("role"), message.get("content"), f"messages.{place}"
    if role in _LEFT_OUT:
        return None
    if role == "assistant":
        return assistant_message(content) if isinstance(content, str) and content else None
    if role not in _SPOKEN:
        raise RequestInvalid(f"{where}.role: {role!r:.60} is none of AG-UI's roles")
    if isinstance(content, str):
        return {"role": role, "content": content}
    if role == "user" and isinstance(content, list):
        parts = [_part(part, f"{where}.content.{n}") for n, part in enumerate(content)]
        return {"role": role, "content": parts}
    raise RequestInvalid(f"{where}.content: a message needs a text")


def _part(part: Any, where: str) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case {"type": "image", "source": {"type": "url", "value": str(url)}}:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "image", "source": {"type": "data", "value": str(data), "mimeType": str(m)}}:
            return {"type": "input_image", "image_url": f"data:{m};base64,{data}", "detail": "auto"}
    raise RequestInvalid(f"{where}: agents are sent texts and images only")
