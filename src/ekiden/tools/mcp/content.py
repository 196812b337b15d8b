"""What a server says of its tools and gives as results, made fit for a model.

All of it is data from somewhere else: no text is too long, hides characters, or is anything but
text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.values import dumps
from ekiden.tools.output import shortened, without_hidden

MAX_RESULT = 100_000
"""Characters of a result."""
_MAX_DESCRIPTION = 4_000
_MAX_REMARK = 1_000
_MAX_SCHEMA = 100_000
_MAX_DEPTH = 32
_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def description_of(tool: Any) -> str:
    """What a server says that its tool does."""
    text = tool.description or tool.title or ""
    return shortened(without_hidden(text).strip(), _MAX_DESCRIPTION)


def is_destructive(tool: Any) -> bool:
    """Whether a server says outright that its tool may destroy or overwrite something."""
    return tool.annotations is not None and tool.annotations.destructive_hint is True


def schema_of(tool: Any) -> dict[str, Any]:
    """The schema of a tool's arguments; one that takes anything where the server's is no use."""
    try:
        schema = _cleaned(tool.input_schema, 0)
        size = len(dumps(schema))
    except (TypeError, ValueError, RecursionError):
        return dict(_ANYTHING)
    if not isinstance(schema, dict) or size > _MAX_SCHEMA or schema.get("type") != "object":
        return dict(_ANYTHING)
    if not isinstance(schema.get("properties"), dict):
        schema["properties"] = {}
    return schema


def text_of(result: Any) -> str:
    """A result as text: its texts, its structured content as JSON, and a word for the rest."""
    texts = [_block(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(_says(text, structured) for text in texts):
        texts.append(dumps(structured))
    return shortened("\n".join(texts), MAX_RESULT)


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type}, {_short(block.mime_type)}, {_size(block.data)}]"
        case "resource_link":
            return f"[link to {_short(block.name)}: {_short(str(block.uri))}]"
        case "resource":
            held = block.resource
            if hasattr(held, "text"):
                return str(held.text)
            return f"[data of {_short(str(held.uri))}, {_size(held.blob)}]"
        case other:
            return f"[{_short(str(other))}]"


def _size(data: str) -> str:
    """How much base64 holds."""
    return f"{len(data) * 3 // 4 - data[-2:].count('='):,} bytes"


def _short(text: str) -> str:
    return shortened(without_hidden(text), 200)


def _says(text: str, value: Any) -> bool:
    """Whether the text says the same: servers are to give structured content as text, too.

    What is no object is wrapped as ``{"result": …}`` by some.
    """
    inner = value["result"] if isinstance(value, dict) and list(value) == ["result"] else value
    if text == inner:
        return True
    try:
        return json.loads(text) in (value, inner)
    except (ValueError, RecursionError):
        return False


def _cleaned(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, Mapping):
        return {
            key: shortened(without_hidden(each), _MAX_REMARK)
            if key in ("title", "description") and isinstance(each, str)
            else _cleaned(each, depth + 1)
            for key, each in value.items()
            if key != "$comment"
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_cleaned(each, depth + 1) for each in value]
    return value
