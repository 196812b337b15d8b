"""Conversation items as the messages of OpenTelemetry's GenAI conventions: roles and parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ekiden.core.jsonio import dumps

_TEXTS = ("text", "refusal", "transcript")


def genai_messages(items: Any, cover: Callable[[str], str]) -> list[dict[str, Any]]:
    """The items as messages; what is none is left out. Every text in them went through `cover`.

    Each has a `role` (``user``, ``assistant``, ``system``, ``tool``) and `parts`: texts, calls of
    tools and their results. Of pictures, sounds and files only their kind is told.
    """
    if isinstance(items, str):
        return [_message("user", _text(cover(items)))]
    if isinstance(items, Mapping):
        items = [items]
    if not isinstance(items, Sequence):
        return []
    found = [_read(item, cover) for item in items if isinstance(item, Mapping)]
    return [message for message in found if message is not None]


def as_json(messages: Sequence[Mapping[str, Any]], most: int) -> str:
    """The messages as JSON of at most that length: the last ones, as many as there is room for."""
    kept: list[str] = []
    room = most - 2
    for message in reversed(messages):
        text = dumps(message)
        room -= len(text) + 1
        if room < 0:
            break
        kept.append(text)
    return f"[{','.join(reversed(kept))}]"


def _read(item: Mapping[str, Any], cover: Callable[[str], str]) -> dict[str, Any] | None:
    kind = item.get("type")
    if kind == "function_call":
        call = {"type": "tool_call", "id": item.get("call_id"), "name": item.get("name")}
        return _message("assistant", {**call, "arguments": _covered(item.get("arguments"), cover)})
    if kind == "function_call_output":
        answer = {"type": "tool_call_response", "id": item.get("call_id")}
        return _message("tool", {**answer, "result": _covered(item.get("output"), cover)})
    role = item.get("role")
    if not isinstance(role, str):
        return None
    content = item.get("content")
    parts = [_text(cover(content))] if isinstance(content, str) else _parts(content, cover)
    return {"role": role, "parts": parts} if parts else None


def _parts(content: Any, cover: Callable[[str], str]) -> list[dict[str, Any]]:
    if not isinstance(content, Sequence):
        return []
    found = []
    for part in content:
        if not isinstance(part, Mapping):
            continue
        text = next((part[name] for name in _TEXTS if isinstance(part.get(name), str)), None)
        found.append({"type": str(part.get("type", "?"))} if text is None else _text(cover(text)))
    return found


def _covered(value: Any, cover: Callable[[str], str]) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else cover(value)
    return cover(dumps(value))


def _message(role: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}
