"""Conversation items as messages of the model library, with images, files and tool results."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UploadedFileProviderName,
    UserContent,
    UserPromptPart,
)

from ekiden.core.conversation.model import Item, is_message, text_of
from ekiden.core.errors import UserError
from ekiden.core.values import dumps

# A tuple: a part comes from outside, and its type may not even be hashable.
_PARTS = (
    "input_text",
    "output_text",
    "text",
    "input_image",
    "input_file",
    "input_audio",
    "refusal",
)


def user_content(content: Any, system: str) -> str | list[UserContent]:
    """A message's ``content``; `system` is whose uploaded files a ``file_id`` names.

    Raises `UserError` for a part that no provider takes.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UserError(f"a message's content must be a text or a list, not {_kind(content)}")
    parts = [_part(part, system) for part in content]
    match parts:
        case [str(only)]:
            return only
        case _:
            return parts


def tool_content(output: Any, system: str) -> Any:
    """A function call's ``output``: a text, content with files, or JSON text of anything else."""
    if isinstance(output, str):
        return output
    if isinstance(output, list) and output and all(map(_is_part, output)):
        parts = [_part(part, system) for part in output]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if len(texts) == len(parts) else parts
    try:
        return dumps(output)
    except (TypeError, ValueError) as exc:
        raise UserError(f"a function call's output must be JSON, not {_kind(output)}") from exc


def assistant_texts(item: Item) -> list[str]:
    """What an assistant's message says, part by part; a refusal counts as what was said."""
    content = item.get("content")
    if isinstance(content, str):
        return [content] if content else []
    texts = (
        part.get("refusal") if part.get("type") == "refusal" else part.get("text")
        for part in content or ()
        if isinstance(part, dict)
    )
    return [text for text in texts if text]


def _part(part: Any, system: str) -> UserContent:
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return text
        case {"type": "input_image"}:
            return _image(part, system)
        case {"type": "input_file"}:
            return _file(part, system)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return BinaryContent(_bytes(data), media_type=f"audio/{form}")
    raise UserError(
        f"a part of a message cannot be sent to a model: {_kind(part)}; "
        "use input_text, input_image, input_file or input_audio"
    )


def _image(part: Item, system: str) -> UserContent:
    detail = part.get("detail")
    metadata = {"detail": detail} if detail else None
    match part:
        case {"image_url": str(url)} | {"image_url": {"url": str(url)}}:
            if url.startswith("data:"):
                data = _data_url(url)
                data.vendor_metadata = metadata
                return data
            return ImageUrl(url=url, vendor_metadata=metadata)
        case {"file_id": str(file_id)}:
            return _uploaded(file_id, system, media_type="image/png", vendor_metadata=metadata)
    raise UserError("an input_image needs image_url or file_id")


def _file(part: Item, system: str) -> UserContent:
    match part:
        case {"file_data": str(data)}:
            if data.startswith("data:"):
                return _data_url(data)
            return BinaryContent(_bytes(data), media_type="application/pdf")
        case {"file_url": str(url)}:
            return DocumentUrl(url=url)
        case {"file_id": str(file_id)}:
            return _uploaded(file_id, system)
    raise UserError("an input_file needs file_data, file_url or file_id")


def _uploaded(file_id: str, system: str, **options: Any) -> UploadedFile:
    if system not in get_args(UploadedFileProviderName):
        raise UserError(f"{system} knows no file ids: put the file itself or its URL into the part")
    return UploadedFile(
        file_id=file_id, provider_name=cast("UploadedFileProviderName", system), **options
    )


def _data_url(url: str) -> BinaryContent:
    header, comma, data = url.removeprefix("data:").partition(",")
    media_type, _, encoding = header.partition(";")
    if not comma or not media_type or not encoding.endswith("base64"):
        raise UserError("a data: URL must look like data:image/png;base64,…")
    return BinaryContent(_bytes(data), media_type=media_type)


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as exc:
        raise UserError(f"a file's data is not base64: {exc}") from exc


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _PARTS


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"type {value.get('type')!r}"
    return type(value).__name__


ORIGIN = "provider_details"
"""The key under which an item keeps what only its maker understands.

``provider`` is who that is, ``details`` what it wants back; of reasoning, ``label`` is what the
provider calls its kind, and ``followed_by`` the item that came of it. Ids, signatures and details
go back to the same provider only.
"""

_OPENAI_IDS = ("rs_", "msg_", "fc_")
_NO_NAME = "unknown_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Who the messages are for."""

    source: str
    """As it stands in the items it made."""
    system: str
    """As the library calls it."""


def to_messages(items: Sequence[Item], receiver: Receiver) -> list[ModelMessage]:
    """The conversation in the library's words: same texts, calls, outputs and order.

    Everything said to the model up to its next answer is one request, everything it then said one
    response. Raises `UserError` for an item that cannot be sent.
    """
    names = {
        item["call_id"]: item["name"]
        for item in items
        if item.get("type") == "function_call" and "call_id" in item and "name" in item
    }
    messages: list[ModelMessage] = []
    for is_answer, turn in _turns(items):
        if is_answer:
            if parts := _answer_parts(turn, receiver):
                ours = any(part.provider_name == receiver.system for part in parts)
                messages.append(
                    ModelResponse(parts=parts, provider_name=receiver.system if ours else None)
                )
        else:
            messages.append(
                ModelRequest(parts=[_request_part(item, names, receiver) for item in turn])
            )
    return messages


def _turns(items: Sequence[Item]) -> Iterator[tuple[bool, list[Item]]]:
    """Neighbouring items of the same side, and whether that side is the model."""
    turn: list[Item] = []
    side = False
    for item in items:
        is_answer = _is_answer(item)
        if turn and is_answer != side:
            yield side, turn
            turn = []
        side = is_answer
        turn.append(item)
    if turn:
        yield side, turn


def _is_answer(item: Item) -> bool:
    if is_message(item):
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise UserError(
                f"a message has the role {role!r}: use user, assistant, system or developer"
            )
        return bool(role == "assistant")
    kind = item.get("type")
    if kind in ("function_call", "reasoning"):
        return True
    if kind == "function_call_output":
        return False
    raise UserError(
        f"an item of type {kind!r} cannot be sent to a model: "
        "use messages, function_call, function_call_output and reasoning"
    )


def _request_part(item: Item, names: dict[str, str], receiver: Receiver) -> ModelRequestPart:
    if item.get("type") == "function_call_output":
        call_id = _needed(item, "call_id")
        return ToolReturnPart(
            tool_name=names.get(call_id, _NO_NAME),
            content=tool_content(item.get("output"), receiver.system),
            tool_call_id=call_id,
        )
    if item["role"] == "user":
        return UserPromptPart(content=user_content(item.get("content"), receiver.system))
    return SystemPromptPart(content=text_of(item))


def _answer_parts(turn: list[Item], receiver: Receiver) -> list[ModelResponsePart]:
    """One answer. Ids are sent only where their reasoning is sent with them.

    A provider that keeps answers refuses a call whose reasoning is missing, and reasoning whose
    call is missing; what it does not know by id it takes as it is.
    """
    replayed = [index for index in range(len(turn)) if _is_replayable(turn, index, receiver)]
    parts: list[ModelResponsePart] = []
    for index, item in enumerate(turn):
        is_ours = _source_of(item) == receiver.source
        origin = _origin(item) if is_ours else {}
        keep: dict[str, Any] = {}
        if origin.get("details") or (replayed and is_ours):
            keep = {
                "id": item.get("id") if replayed else None,
                "provider_name": receiver.system,
                "provider_details": origin.get("details"),
            }
        if item.get("type") == "function_call":
            parts.append(
                ToolCallPart(
                    tool_name=_needed(item, "name"),
                    args=item.get("arguments") or "{}",
                    tool_call_id=_needed(item, "call_id"),
                    **keep,
                )
            )
        elif item.get("type") == "reasoning":
            if index in replayed:
                parts.extend(_thinking(item, receiver))
        else:
            parts.extend(TextPart(content=text, **keep) for text in assistant_texts(item))
    return parts


def _is_replayable(turn: list[Item], index: int, receiver: Receiver) -> bool:
    """Whether this is reasoning of the receiver's own that still has what came of it."""
    item = turn[index]
    if item.get("type") != "reasoning" or _source_of(item) != receiver.source:
        return False
    result = next((each for each in turn[index + 1 :] if each.get("type") != "reasoning"), None)
    if result is None:
        return False
    expected = _origin(item).get("followed_by")
    return expected is None or expected in (result.get("call_id"), result.get("id"))


def _thinking(item: Item, receiver: Receiver) -> Iterator[ThinkingPart]:
    """The parts of one reasoning item; the first carries what is needed to verify it."""
    details = dict(_origin(item).get("details") or {})
    raw = [part["text"] for part in item.get("content") or () if part.get("text")]
    if raw:
        details["raw_content"] = raw
    summaries = [part.get("text") or "" for part in item.get("summary") or ()] or [""]
    for number, text in enumerate(summaries):
        is_first = number == 0
        yield ThinkingPart(
            content=text,
            id=item.get("id") or _origin(item).get("label"),
            signature=item.get("encrypted_content") if is_first else None,
            provider_name=receiver.system,
            provider_details=(details or None) if is_first else None,
        )


def _source_of(item: Item) -> str | None:
    """Who made the item; one straight from OpenAI is known by its id."""
    source = _origin(item).get("provider")
    if source is not None:
        return str(source)
    return "openai" if str(item.get("id") or "").startswith(_OPENAI_IDS) else None


def _origin(item: Item) -> dict[str, Any]:
    origin = item.get(ORIGIN)
    return origin if isinstance(origin, dict) else {}


def _needed(item: Item, key: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value:
        raise UserError(f"an item of type {item.get('type')!r} has no {key}")
    return value
