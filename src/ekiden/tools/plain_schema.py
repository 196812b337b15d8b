"""The arguments of functions with plain parameters, without loading pydantic.

Most tools take texts and numbers, or null in place of one. Their JSON Schema is written here, as
pydantic would write it; pydantic is loaded when the first call is read. All other functions go
through `tools.schema`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from ekiden.core.tools.tool import ensure_strict_json_schema
from ekiden.tools.signature import ParameterSchema

_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def arguments_of(
    params: Sequence[inspect.Parameter],
    *,
    tool: str,
    descriptions: Mapping[str, str],
    strict: bool,
) -> ParameterSchema:
    """The arguments that `params` ask for; `UserError` where a type has no JSON Schema."""

    @cache
    def read() -> ParameterSchema:
        from ekiden.tools.schema import read_arguments

        return read_arguments(params, tool=tool, descriptions=descriptions, strict=strict)

    if not params or not all(map(_is_plain, params)):
        return read()
    properties = {param.name: _property(param, descriptions.get(param.name)) for param in params}
    schema: dict[str, Any] = {"properties": properties}
    if required := [param.name for param in params if param.default is param.empty]:
        schema["required"] = required
    schema |= {"title": f"{tool}_args", "type": "object"}
    if strict:
        schema = ensure_strict_json_schema(schema)
    return ParameterSchema(json_schema=schema, parse=lambda text: read().parse(text))


def _is_plain(param: inspect.Parameter) -> bool:
    default = param.default
    return (
        _shape(param.annotation) is not None
        and param.kind in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY)
        and (default is None or default is param.empty or type(default) in _TYPES)
        and (not isinstance(default, str) or default.isprintable())
    )


def _shape(annotation: Any) -> dict[str, Any] | None:
    """The schema of a plain type, or of one that may also be null; `None` for all others."""
    if get_origin(annotation) in (Union, UnionType):
        first, *others = get_args(annotation)
        shape = _shape(first) if others == [NoneType] else None
        return None if shape is None else {"anyOf": [shape, {"type": "null"}]}
    found = [name for kind, name in _TYPES.items() if annotation is kind]
    return {"type": found[0]} if found else None


def _property(param: inspect.Parameter, description: str | None) -> dict[str, Any]:
    told = _shape(param.annotation) or {}
    told["title"] = param.name.title().replace("_", " ").strip()
    if description:
        told["description"] = description
    told = dict(sorted(told.items()))
    if param.default is not param.empty:
        told["default"] = param.default
    return told
