"""What is said and done in a live session, with the SDK's fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ekiden.integrations.realtime.items import RealtimeItem as NativeItem


class _Open(BaseModel):
    """Keeps fields that it does not know."""

    model_config = ConfigDict(extra="allow")


class _Item(_Open):
    item_id: str
    previous_item_id: str | None = None


class InputText(_Open):
    """Text from a person, or from the system."""

    type: Literal["input_text"] = "input_text"
    text: str | None = None


class InputAudio(_Open):
    """Speech from a person."""

    type: Literal["input_audio"] = "input_audio"
    audio: str | None = None
    """The audio in base64."""
    transcript: str | None = None


class InputImage(_Open):
    """A picture of a person."""

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    detail: str | None = None


class AssistantText(_Open):
    """Text from the model."""

    type: Literal["text"] = "text"
    text: str | None = None


class AssistantAudio(_Open):
    """Speech of the model."""

    type: Literal["audio"] = "audio"
    audio: str | None = None
    """In base64."""
    transcript: str | None = None


class SystemMessageItem(_Item):
    """A system message."""

    type: Literal["message"] = "message"
    role: Literal["system"] = "system"
    content: list[InputText]


class UserMessageItem(_Item):
    """A message from the person."""

    type: Literal["message"] = "message"
    role: Literal["user"] = "user"
    content: list[Annotated[InputText | InputAudio | InputImage, Field(discriminator="type")]]


class AssistantMessageItem(_Item):
    """A message from the model."""

    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    content: list[Annotated[AssistantText | AssistantAudio, Field(discriminator="type")]]


class RealtimeToolCallItem(_Item):
    """A tool call."""

    call_id: str | None
    type: Literal["function_call"] = "function_call"
    status: Literal["in_progress", "completed"]
    arguments: str
    name: str
    output: str | None = None


RealtimeMessageItem: TypeAlias = Annotated[
    SystemMessageItem | UserMessageItem | AssistantMessageItem, Field(discriminator="role")
]
RealtimeItem: TypeAlias = RealtimeMessageItem | RealtimeToolCallItem


class RealtimeResponse(BaseModel):
    """An answer from the model."""

    id: str
    output: list[RealtimeMessageItem]


_MESSAGES: TypeAdapter[Any] = TypeAdapter(RealtimeMessageItem)
_NAMES = {"output_text": "text", "output_audio": "audio"}
"""Types of parts in the API's words, and in the SDK's."""


def read_item(data: Mapping[str, Any], previous_item_id: str | None = None) -> Any:
    """An item that the API reports; `None` for kinds that are neither messages nor calls."""
    common = {"item_id": data["id"], "previous_item_id": previous_item_id}
    if data["type"] == "function_call":
        is_over = data.get("status") != "in_progress"
        return RealtimeToolCallItem(
            **common,
            call_id=data.get("call_id"),
            status="completed" if is_over else "in_progress",
            arguments=data.get("arguments") or "",
            name=data["name"],
        )
    if data["type"] != "message":
        return None
    more = {"status": data.get("status")} if data["role"] == "assistant" else {}
    parts = [
        {**part, "type": _NAMES.get(part["type"], part["type"])}
        for part in data.get("content") or ()
    ]
    return _MESSAGES.validate_python({**common, **more, "role": data["role"], "content": parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptItem(NativeItem):
    """An item as Ekiden's session keeps it, with the SDK's item that it was made of."""

    original: Any = None


def _said(item: Any) -> list[str]:
    return [getattr(p, "transcript", None) or getattr(p, "text", None) or "" for p in item.content]


def to_native(item: Any) -> KeptItem:
    """An item for Ekiden's session."""
    common: dict[str, Any] = {
        "item_id": item.item_id,
        "previous_item_id": item.previous_item_id,
        "original": item,
    }
    if item.type == "function_call":
        return KeptItem(
            **common,
            type="function_call",
            status=item.status,
            call_id=item.call_id or "",
            name=item.name,
            arguments=item.arguments,
        )
    return KeptItem(
        **common,
        type="message",
        role=item.role,
        text="".join(_said(item)),
        status=getattr(item, "status", None) or "completed",
        is_audio=any("audio" in part.type for part in item.content),
    )


def to_sdk(item: NativeItem) -> Any:
    """The SDK's item for one of Ekiden's session, with the text that is known by now."""
    original = getattr(item, "original", None)
    if original is None:
        if item.role != "user":
            return None
        part = InputAudio(transcript=item.text) if item.is_audio else InputText(text=item.text)
        return UserMessageItem(
            item_id=item.item_id, previous_item_id=item.previous_item_id, content=[part]
        )
    if original.type != "message" or "".join(_said(original)) == item.text:
        return original
    parts, is_set = [], False
    for part in original.content:
        field = "transcript" if "audio" in part.type else "text"
        is_last = not is_set and field in type(part).model_fields
        parts.append(part.model_copy(update={field: item.text}) if is_last else part)
        is_set = is_set or is_last
    return original.model_copy(update={"content": parts})
