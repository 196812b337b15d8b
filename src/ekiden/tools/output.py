"""The result of a tool for the model, and safe text for people."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ToolResultUnusable
from ekiden.core.privacy.masking import cover
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.core.tools.guardrails import GuardrailDecision


# A tuple, not a set: `type` in a tool's result may be unhashable.
_PARTS = ("input_text", "input_image", "input_file")
_PLAIN = (dict, list, tuple, bool, int, float, type(None))
"""Types of values that usually are JSON already."""
_MAX_DEPTH = 200


class NoJsonForm(TypeError):
    """A value, or a part of it, has no JSON form. The message names the part and its type."""


def output_of(result: Any) -> str | list[Item]:
    """The content of a ``function_call_output`` item: text, or a list of content parts. Raises
    `NoJsonForm`."""
    if type(result) is str:
        return result
    if isinstance(result, list) and result and all(map(_is_part, result)):
        return result
    return output_text(result)


def output_text(result: Any) -> str:
    """The text of the value: its `json_form` if that is a text, otherwise the JSON form as JSON
    text. Raises `NoJsonForm`."""
    if isinstance(result, _PLAIN):
        try:
            return dumps(result)
        except (TypeError, ValueError):
            pass  # A part of the value is not plain.
    form = json_form(result)
    return form if isinstance(form, str) else dumps(form)


def json_form(value: Any) -> Any:
    """The JSON form of a value, which `docs/tools.md` describes. Raises `NoJsonForm` if the value,
    or a part of it, has none. The form of a value never depends on Python's `repr`::

        json_form(Parcel(due=date(2026, 11, 18)))  # {"due": "2026-11-18"}
    """
    return _jsonable(value, frozenset(), "")


def result_form(tool: str, value: Any) -> Any:
    """The JSON form of a tool's result, or a text that says that the call was made but its result
    cannot be shown."""
    try:
        return json_form(value)
    except NoJsonForm as exc:
        return f"Error: {cover(str(ToolResultUnusable(tool, str(exc))))}"


def to_jsonable(value: Any) -> Any:
    """An approximation of `value` in JSON types, for data that only informs people. The function
    never raises an exception.

    This is the `json_form`, in which every part without a JSON form becomes its `str`. Cycles are
    cut.
    """
    return _jsonable(value, frozenset(), None)


def _jsonable(value: Any, outer: frozenset[int], place: str | None) -> Any:
    """The JSON form of the part of a value at `place`. If `place` is `None`, parts without a JSON
    form become text."""
    if value is None or isinstance(value, bool):
        return value
    if type(value) in (str, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if id(value) in outer or len(outer) >= _MAX_DEPTH:
        return _without_form(value, place, "contains itself, or is nested too deeply")
    try:
        return _converted(value, outer | {id(value)}, place)
    except NoJsonForm:
        raise
    except Exception as exc:
        return _without_form(value, place, f"cannot be converted: {exc}")


def _converted(value: Any, outer: frozenset[int], place: str | None) -> Any:
    if isinstance(value, Enum):
        return _jsonable(value.value, outer, place)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _without_form(value, place, "does not exist in JSON")
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: _jsonable(getattr(value, each.name), outer, _below(place, each.name))
            for each in fields(value)
        }
    if _is_object(value):
        return _jsonable(_dumped(value, place), outer, place)
    if isinstance(value, Mapping):
        return {
            _key(name, place): _jsonable(each, outer, _below(place, name))
            for name, each in value.items()
        }
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        parts = [_jsonable(each, outer, _below(place, at)) for at, each in enumerate(value)]
        # The order of a set changes from process to process.
        return sorted(parts, key=dumps) if isinstance(value, Set) else parts
    return _leaf(value, place)


def _leaf(value: Any, place: str | None) -> Any:
    """The form of a single value, such as a date, as pydantic writes it."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    if place is None and isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    if not isinstance(value, Iterator):  # pydantic would use it up.
        with suppress(PydanticSerializationError):
            return to_jsonable_python(value)
    return _without_form(value, place, "has no JSON form")


def _without_form(value: Any, place: str | None, why: str) -> str:
    """The text of a value without a JSON form. Raises `NoJsonForm` if there is a `place`."""
    if place is None:
        return _text(value)
    name = f"a value of type {type(value).__name__!r}"
    if isinstance(value, float):
        name = f"the number {value}"
    hint = ": write `return await …`" if inspect.isawaitable(value) else ""
    raise NoJsonForm(f"{name}{_at(place)} {why}{hint}")


def _at(place: str) -> str:
    return f" at {place[:200]}" if place else ""


def _below(place: str | None, part: Any) -> str | None:
    return None if place is None else f"{place}[{part!r:.40}]"


def _dumped(model: Any, place: str | None) -> Any:
    try:
        return model.model_dump(mode="json")
    except Exception:  # a field that pydantic cannot serialize
        if place is not None:
            raise
        return dict(model)


def _key(name: Any, place: str | None) -> str:
    plain = _jsonable(name, frozenset(), place)
    if isinstance(plain, str):
        return plain
    if place is None:
        return _text(name)
    if isinstance(plain, list | dict):
        raise NoJsonForm(f"a key of type {type(name).__name__!r}{_at(place)} is not text")
    return dumps(plain)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _PARTS


def _is_object(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "model_dump_json")


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
