"""The result of a tool for the model, and safe text for people."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.core.tools.guardrails import GuardrailDecision


# A tuple, not a set: `type` in a tool's result may be unhashable.
_PARTS = ("input_text", "input_image", "input_file")
_MAX_DEPTH = 200


def output_of(result: Any) -> str | list[Item]:
    """The content of a ``function_call_output`` item: text, or a list of content parts."""
    if type(result) is str:
        return result
    if isinstance(result, list) and result and all(map(_is_part, result)):
        return result
    return output_text(result)


def output_text(result: Any) -> str:
    """Convert the value to text. Objects, mappings and collections become JSON. Any other value is
    converted with `str`."""
    if isinstance(result, str):
        return str.__str__(result)
    if isinstance(result, bytes | bytearray):
        return bytes(result).decode(errors="backslashreplace")
    if isinstance(result, Mapping | list | tuple | set | frozenset) or _is_object(result):
        return _json_text(result)
    return str(result)


def to_jsonable(value: Any) -> Any:
    """Convert `value` to JSON types, for `dumps`. The function never raises an exception.

    Pydantic models and dataclasses become objects; other collections become arrays. Dates (in ISO
    form) and bytes become text. Any other value becomes its `str`. Cycles are cut::

        to_jsonable(Parcel(due=date(2026, 11, 18)))  # {"due": "2026-11-18"}
    """
    return _jsonable(value, frozenset())


def _jsonable(value: Any, outer: frozenset[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if type(value) in (str, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if id(value) in outer or len(outer) >= _MAX_DEPTH:
        return _text(value)
    try:
        return _converted(value, outer | {id(value)})
    except Exception:
        return _text(value)


def _converted(value: Any, outer: frozenset[int]) -> Any:
    from datetime import date, time

    if isinstance(value, Enum):
        return _jsonable(value.value, outer)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _jsonable(getattr(value, each.name), outer) for each in fields(value)}
    if _is_object(value):
        return _jsonable(_dumped(value), outer)
    if isinstance(value, Mapping):
        return {_key(name): _jsonable(each, outer) for name, each in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes | bytearray):
        return [_jsonable(each, outer) for each in value]
    return _text(value)


def _dumped(model: Any) -> Any:
    try:
        return model.model_dump(mode="json")
    except Exception:  # a field that pydantic cannot serialize
        return dict(model)


def _key(name: Any) -> str:
    plain = _jsonable(name, frozenset())
    return plain if isinstance(plain, str) else _text(name)


def _text(value: Any) -> str:
    try:
        return output_text(value) if isinstance(value, str | bytes | bytearray) else str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _PARTS


def _is_object(value: Any) -> bool:
    if isinstance(value, type):
        return False
    return is_dataclass(value) or hasattr(value, "model_dump_json")


def _json_text(value: Any) -> str:
    """The value as JSON text; types that JSON does not know are converted by pydantic or `str`."""
    try:
        return dumps(value)
    except (TypeError, ValueError):
        pass
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(value, fallback=_plain, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError):
        return str(value)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


_HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028\u2029\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that control a terminal, reorder text, or are invisible."""


def spelled_out(text: str) -> str:
    """`text` with every hidden character escaped, except line breaks and tabs."""
    return re.sub(
        _HIDDEN,
        lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(),
        text,
    )


def without_hidden(text: str) -> str:
    """`text` without hidden characters, except line breaks and tabs."""
    return re.sub(_HIDDEN, "", text)


def shortened(text: str, limit: int) -> str:
    """Return `text`, or its first `limit` characters and a note about the number of characters that
    are left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} … ({len(text) - limit:,} more characters)"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call."""

    output: Any
    """The content of the ``function_call_output`` item, as JSON."""
    value: Any
    """The value that the tool returned; `None` if it failed."""
    error: str | None = None
    """The reason of a failure, for people. The model gets `output` instead."""
    guardrails: tuple[GuardrailDecision, ...] = ()
    """The decisions of the tool's guardrails, in order."""
    kinds: tuple[str, ...] = ()
    """The names of the error: class, base classes, and code."""
    is_run: bool = True
    """Whether the tool was called. A tool is not called if a required approval is missing."""
