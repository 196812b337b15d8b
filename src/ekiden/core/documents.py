"""Converts frozen dataclasses to JSON and back, according to their fields."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ekiden.core.dataclass import dataclass
from ekiden.core.syntax import parse_class

T = TypeVar("T")
Convert = Callable[[Any], Any]

_PLAIN = frozenset({str, int, float, bool, NoneType})
"""Types that are JSON themselves; most values have one, and further checks are slow."""


def _describe(schema: dict[str, Any], kind: type) -> None:
    """Complete the JSON Schema that pydantic makes of a value: JSON names, descriptions from the
    docstrings of the fields, and which fields are always present."""
    texts = field_texts(kind)
    properties = schema["properties"]
    for name, key, is_optional in _json_fields(kind):
        about = properties.pop(name)
        if name in texts:
            about["description"] = texts[name]
        if is_optional:
            about.update(next(each for each in about.pop("anyOf") if each != {"type": "null"}))
        about.pop("default", None)
        properties[key] = about
    if "description" in schema:
        schema["description"] = schema["description"].partition("\n\nFor example::")[0]
    schema["required"] = [key for _, key, is_optional in _json_fields(kind) if not is_optional]


@cache
def field_texts(kind: type) -> dict[str, str]:
    """The docstrings of the fields of a class and its base classes, by name."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if is_dataclass(each):
            for field_, below in pairwise(parse_class(each).body):
                match field_, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        found[name] = inspect.cleandoc(text)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Base class of public values. `to_json` returns a value as JSON, with the names of its
    fields."""

    __pydantic_config__: ClassVar[Any] = {"json_schema_extra": _describe}

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON. The keys are the names of the fields."""
        found: dict[str, Any] = to_json(self)
        return found


def named(name: str, **options: Any) -> Any:
    """A field with another name in JSON, because the name in JSON is a Python keyword."""
    return field(**options, metadata={"json": name})


def left_out(**options: Any) -> Any:
    """A field that JSON omits if it is `None`."""
    return field(default=None, **options, metadata={"left_out": True})


def written(write: Convert, read: Convert) -> Mapping[str, Convert]:
    """The metadata of a field with its own conversion: `write` converts the value to JSON, and
    `read` converts JSON to the value."""
    return {"write": write, "read": read}


def to_json(value: Any) -> Any:
    """Return the value as JSON. Objects have their fields in the order of declaration."""
    if type(value) in _PLAIN:
        return value
    if hasattr(value, "__dataclass_fields__"):
        kind: Any = type(value)
        return {
            key: found if type(found) in _PLAIN else write(found)
            for name, key, is_optional, write in _writers(kind)
            if (found := getattr(value, name)) is not None or not is_optional
        }
    if isinstance(value, list | tuple):
        return [each if type(each) in _PLAIN else to_json(each) for each in value]
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(each) for each in value]
    return value


def from_json(type: Any, data: Any) -> Any:
    """Convert JSON to a value of the type `type`.

    Unknown fields are ignored, and missing fields get their default, or `None`. So a program can
    talk to an older or newer server.
    """
    return _converter(type)(data)


@cache
def _writers(kind: Any) -> tuple[tuple[str, str, bool, Convert], ...]:
    """`_json_fields`, each with its conversion to JSON. A field of the type `Any` is JSON already,
    so it is not copied."""
    converts = [
        _unchanged if each.type in (Any, "Any") else each.metadata.get("write", to_json)
        for each in fields(kind)
    ]
    return tuple((*about, way) for about, way in zip(_json_fields(kind), converts, strict=True))


def _unchanged(value: Any) -> Any:
    return value


@cache
def _json_fields(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """For each field: its name, its name in JSON, and whether JSON omits it if it is `None`."""
    return tuple(
        (each.name, each.metadata.get("json", each.name), bool(each.metadata.get("left_out")))
        for each in fields(kind)
    )


@cache
def _converter(hint: Any) -> Convert:
    """The function that converts JSON to the type; JSON types are unchanged."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _object_converter(hint)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_make"):
        return cast("Convert", hint._make)
    if origin in (Union, UnionType):
        others = [each for each in args if each is not NoneType]
        if len(others) == 1:
            inner = _converter(others[0])
            return lambda data: None if data is None else inner(data)
    if origin is tuple or origin is Sequence:
        member = _converter(args[0])
        return lambda data: tuple(member(each) for each in data or ())
    if origin is Mapping and is_dataclass(args[1]):
        member_hint: Any = args[1]
        of_each = _converter(member_hint)
        return lambda data: {key: of_each(each) for key, each in (data or {}).items()}
    return _unchanged


def _object_converter(kind: type[T]) -> Convert:
    hints = get_type_hints(kind)
    parts = [
        (
            each,
            each.metadata.get("json", each.name),
            each.metadata.get("read") or _converter(hints[each.name]),
        )
        for each in fields(cast("Any", kind))
    ]

    def convert(data: Mapping[str, Any]) -> T:
        given = {each.name: made(data[key]) for each, key, made in parts if key in data}
        for each, _, _ in parts:
            if each.name not in given and each.default is each.default_factory is MISSING:
                given[each.name] = None
        return kind(**given)

    return convert
