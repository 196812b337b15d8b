"""A tool's result as the model is given it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from ekiden.core.items import Item
from ekiden.core.jsonio import dumps

_PARTS = frozenset({"input_text", "input_image", "input_file"})


def output_of(result: Any) -> str | list[Item]:
    """The content of a ``function_call_output`` item: text, or a list of content parts as it is."""
    if type(result) is str:
        return result
    if isinstance(result, list) and result and all(map(_is_part, result)):
        return result
    return output_text(result)


def output_text(result: Any) -> str:
    """Text as it is; objects, mappings and collections as JSON; anything else through `str`."""
    if isinstance(result, str):
        return str.__str__(result)
    if isinstance(result, bytes | bytearray):
        return bytes(result).decode(errors="backslashreplace")
    if isinstance(result, Mapping | list | tuple | set | frozenset) or _is_object(result):
        return _json_text(result)
    return str(result)


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _PARTS


def _is_object(value: Any) -> bool:
    if isinstance(value, type):
        return False
    return is_dataclass(value) or hasattr(value, "model_dump_json")


def _json_text(value: Any) -> str:
    """JSON of anything; for what JSON does not know, what pydantic or else `str` makes of it."""
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
