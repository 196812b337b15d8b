"""Translates model requests for the library pydantic-ai: messages, tools, output and settings."""

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
    InstructionPart,
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
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ekiden.core.conversation import model as core
from ekiden.core.conversation.model import Item, is_message, text_of
from ekiden.core.errors import UserError
from ekiden.core.values import dumps

# A tuple, not a set: the type of a part is unchecked input, and may be unhashable.
_PARTS = (
    "input_text", "output_text", "text", "input_image", "input_file", "input_audio", "refusal",
)  # fmt: skip


def user_content(content: Any, system: str) -> str | list[UserContent]:
    """The content of a message. `system` is the provider that knows the ``file_id`` in the content.

    Raises `UserError` for a part that no provider accepts.
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
    """The output of a function call: text, content with files, or any other value as JSON text."""
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
    """The texts of an assistant's message, including refusals."""
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
"""The key of an item for data that only its provider understands.

``provider`` names the provider, and ``details`` is the data to send back. An item with reasoning
also has ``label``, the provider's name for the kind of reasoning, and ``followed_by``, the item
that resulted from the reasoning. Ids, signatures and details are sent to the same provider only.
"""

_OPENAI_IDS = ("rs_", "msg_", "fc_")
_NO_NAME = "unknown_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """The provider that receives the messages."""

    source: str
    """The name of the provider in items."""
    system: str
    """The name of the provider in the library."""


def to_messages(items: Sequence[Item], receiver: Receiver) -> list[ModelMessage]:
    """Convert the conversation to messages of the library, in the same order.

    All items before an answer of the model become one request. The items of the answer become one
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
    """Groups of consecutive items from the same side, and whether that side is the model."""
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
    """One answer of the model. Ids are sent only together with their reasoning.

    A provider that stores answers refuses a call without its reasoning, and reasoning without its
    call. It accepts items without ids.
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
    """Whether the item is the receiver's own reasoning, followed by the item it resulted in."""
    item = turn[index]
    if item.get("type") != "reasoning" or _source_of(item) != receiver.source:
        return False
    result = next((each for each in turn[index + 1 :] if each.get("type") != "reasoning"), None)
    if result is None:
        return False
    expected = _origin(item).get("followed_by")
    return expected is None or expected in (result.get("call_id"), result.get("id"))


def _thinking(item: Item, receiver: Receiver) -> Iterator[ThinkingPart]:
    """The parts of one reasoning item; the first has the signature and the details."""
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
    """The provider that made the item. OpenAI's own items are recognized by their ids."""
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


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_CHOICES = ("auto", "required", "none")
_OURS = frozenset({"timeout", "request_timeout", "first_event_timeout", "max_retries"})


def request_parameters(
    request: core.ModelRequest, model: Model[Any], *, strict: bool
) -> ModelRequestParameters:
    """The tools, the output type and the instructions of a request.

    `strict` says whether the provider accepts every strict schema. A model without native
    structured output gets the schema in its instructions.
    """
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
                strict=tool.strict if strict else None,
            )
            for tool in request.tools
        ],
    )
    if request.instructions:
        parameters.instruction_parts = [InstructionPart(content=request.instructions)]
    if request.output is not None:
        is_native = model.profile.get("supports_json_schema_output", False)
        parameters.output_mode = "native" if is_native else "prompted"
        parameters.output_object = OutputObjectDefinition(
            name=request.output.name,
            json_schema=request.output.json_schema,
            strict=request.output.strict if strict else None,
        )
    return parameters


def library_settings(
    request: core.ModelRequest, settings_type: type, *, label: str, timeout_s: float
) -> ModelSettings:
    """The library's settings for one call. Raises `UserError` for an invalid value.

    Entries of ``extra`` that the library knows become settings. All other entries go unchanged into
    the body of the request.
    """
    wanted = request.settings
    given: dict[str, Any] = {
        "temperature": wanted.temperature,
        "top_p": wanted.top_p,
        "max_tokens": wanted.max_tokens,
        "parallel_tool_calls": wanted.parallel_tool_calls if request.tools else None,
        "tool_choice": _tool_choice(request, label),
        "thinking": _effort(wanted.reasoning_effort),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    known = settings_type.__annotations__.keys() | ModelSettings.__annotations__.keys()
    body: dict[str, Any] = {}
    for name, value in (wanted.extra or {}).items():
        if name in _OURS:
            raise UserError(
                f"{name} is not for `extra`: give timeout_s and retries to resolve_model()"
            )
        (settings if name in known else body)[name] = value
    if body:
        settings["extra_body"] = {**settings.get("extra_body", {}), **body}
    return cast("ModelSettings", {**settings, "timeout": timeout_s, "max_retries": 0})


def _tool_choice(request: core.ModelRequest, label: str) -> str | list[str] | None:
    choice = request.settings.tool_choice
    if choice is None or not request.tools:
        return None
    if choice in _CHOICES:
        return choice
    offered = [tool.name for tool in request.tools]
    if choice not in offered:
        raise UserError(
            f"tool_choice {choice!r} names no tool that {label} is offered; "
            f"it may be auto, required, none or one of: {', '.join(offered)}"
        )
    return [choice]


def _effort(effort: str | None) -> str | bool | None:
    if effort is None or effort in _EFFORTS:
        return False if effort == "none" else effort
    raise UserError(f"reasoning_effort {effort!r} is unknown; use one of {', '.join(_EFFORTS)}")
