"""Chat messages as items of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item, assistant_message, text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.integrations.openai_api.errors import BadRequest

_SPOKEN = ("system", "developer", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChat:
    """What a chat client sends: all that was said, and the message that is new."""

    history: tuple[Item, ...]
    message: Item
    """The last message; of the user."""

    @property
    def text(self) -> str:
        """What the user says now."""
        return text_of(self.message)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said: whoever sends that only asks how things stand."""
        content = self.message["content"]
        return not self.text.strip() and (isinstance(content, str) or not content)


def user_texts(items: Sequence[Item]) -> list[str]:
    """What the user said in `items`."""
    return [text_of(item) for item in items if is_request(item)]


def read_chat(messages: Sequence[Mapping[str, Any]]) -> ClientChat:
    """The messages of a request; `BadRequest` says which one cannot be used and why."""
    items = [item for place, each in enumerate(messages) if (item := _item(each, place))]
    if not items or items[-1].get("role") != "user":
        raise BadRequest(
            "the last message must be from the user: it is the one to be answered", param="messages"
        )
    return ClientChat(history=tuple(items[:-1]), message=items[-1])


def _item(message: Mapping[str, Any], place: int) -> Item | None:
    role, content, param = message.get("role"), message.get("content"), f"messages.{place}"
    if role in _SPOKEN:
        return {"role": role, "content": _content(content, f"{param}.content")}
    if role == "assistant":
        if message.get("tool_calls") or message.get("function_call"):
            raise _no_tools(param)
        text = message.get("refusal") if content is None else _text(content, f"{param}.content")
        return assistant_message(str(text)) if text else None
    if role in ("tool", "function"):
        raise _no_tools(param)
    raise BadRequest(
        f"a message is of the system, developer, user or assistant, not of {role!r:.60}",
        param=f"{param}.role",
    )


def _no_tools(param: str) -> BadRequest:
    return BadRequest(
        "tools of the client are not supported: the team's agents use their own, on the server",
        param=param,
        code="unsupported_value",
    )


def _text(content: Any, param: str) -> str:
    if isinstance(content, str):
        return content
    parts = _parts(content, param)
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


def _content(content: Any, param: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = _parts(content, param)
    return [_part(part, f"{param}.{place}") for place, part in enumerate(parts)]


def _parts(content: Any, param: str) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise BadRequest("content is a text or a list of parts", param=param)
    return content


def _part(part: dict[str, Any], param: str) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url), **more}}:
            detail = more.get("detail")
            chosen = detail if isinstance(detail, str) else "auto"
            return {"type": "input_image", "image_url": url, "detail": chosen}
        case {"type": "file", "file": dict(file)}:
            return {"type": "input_file", **file}
        case {"type": "input_audio", "input_audio": dict(audio)}:
            return {"type": "input_audio", "input_audio": audio}
    raise BadRequest(
        "a part is a text, an image_url, a file or input_audio, and whole", param=param
    )
