"""Inputs of handoffs that are not objects: no provider takes a tool with bare arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ekiden.core.jsonio import dumps, loads

_FIELD = "value"


def is_bare(input_type: Any) -> bool:
    """Whether `input_type` is such as ``int`` or ``list[str]``, whose JSON is not an object."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(input_type).json_schema()
    return "$ref" not in schema and schema.get("type") != "object"


def boxed_type(input_type: Any) -> Any:
    """An object with `input_type` as its one field."""
    from pydantic import create_model

    fields: dict[str, Any] = {_FIELD: (input_type, ...)}
    return create_model("Input", **fields)


def unboxing(on_handoff: Callable[..., Any]) -> Callable[..., Any]:
    """A callback for the box that calls `on_handoff`, and has its signature."""

    @wraps(on_handoff)
    def call(context: Any, box: Any) -> Any:
        return on_handoff(context, getattr(box, _FIELD))

    return call


def boxed(arguments: str) -> str:
    """The arguments in their box; what a model gave without it is put there."""
    try:
        given = loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments
    is_in = isinstance(given, dict) and given.keys() == {_FIELD}
    return arguments if is_in else dumps({_FIELD: given})
