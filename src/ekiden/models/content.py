"""The content of items as the library's content, and tool outputs as its tool returns."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast, get_args

from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    UploadedFile,
    UploadedFileProviderName,
    UserContent,
)

from ekiden.core.conversation.model import Item
from ekiden.core.errors import UserError
from ekiden.core.values import dumps

_TEXT = frozenset({"input_text", "output_text", "text"})
_PARTS = _TEXT | {"input_image", "input_file", "input_audio", "refusal"}


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
