"""Values as they are stored: JSON, ids, times, and frozen dataclasses as JSON."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from json import encoder as _parts
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ekiden.core.errors import UserError


class SystemClock:
    """`Clock` on the machine's own time."""

    __slots__ = ()

    def now_us(self) -> int:
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)


SYSTEM_CLOCK = SystemClock()

T = TypeVar("T")
Convert = Callable[[Any], Any]

_PLAIN = frozenset({str, int, float, bool, NoneType})
"""Types that are JSON themselves; most values have one, and further checks are slow."""


def _describe(schema: dict[str, Any], kind: type) -> None:
    """Add the class's descriptions to the JSON Schema of a value: names, and each field."""
    texts = field_texts(kind)
    properties = schema["properties"]
    for name, key, may_go in _written(kind):
        about = properties.pop(name)
        if name in texts:
            about["description"] = texts[name]
        if may_go:
            about.update(next(each for each in about.pop("anyOf") if each != {"type": "null"}))
        about.pop("default", None)
        properties[key] = about
    if "description" in schema:
        schema["description"] = schema["description"].partition("\n\nFor example::")[0]
    schema["required"] = [key for _, key, may_go in _written(kind) if not may_go]


@cache
def field_texts(kind: type) -> dict[str, str]:
    """By name, the docstrings of the fields of a class and its base classes."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if is_dataclass(each):
            [tree] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            for field_, below in pairwise(cast("ast.ClassDef", tree).body):
                match field_, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        found[name] = inspect.cleandoc(text)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Base class of values for people and programs, as JSON with the names of their fields."""

    __pydantic_config__: ClassVar[Any] = {"json_schema_extra": _describe}

    def to_json(self) -> dict[str, Any]:
        """As JSON, with the names of the fields."""
        found: dict[str, Any] = to_json(self)
        return found


def named(name: str, **options: Any) -> Any:
    """A field with another name in JSON, because the name is a Python keyword."""
    return field(**options, metadata={"json": name})


def left_out(**options: Any) -> Any:
    """A field that JSON omits if it is `None`."""
    return field(default=None, **options, metadata={"left_out": True})


def written(write: Convert, read: Convert) -> Mapping[str, Convert]:
    """The metadata of a field that holds no `Value`: how it becomes JSON, and how it is read."""
    return {"write": write, "read": read}


def to_json(value: Any) -> Any:
    """The value as JSON: objects in the order of their fields."""
    if type(value) in _PLAIN:
        return value
    if hasattr(value, "__dataclass_fields__"):
        kind: Any = type(value)
        return {
            key: found if type(found) in _PLAIN else write(found)
            for name, key, may_go, write in _writing(kind)
            if (found := getattr(value, name)) is not None or not may_go
        }
    if isinstance(value, list | tuple):
        return [each if type(each) in _PLAIN else to_json(each) for each in value]
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(each) for each in value]
    return value


def from_json(type: Any, data: Any) -> Any:
    """The value of this type from JSON.

    Fields of another version are ignored, and missing ones get their default, or `None` without
    one, so that a program can talk to an older or newer server.
    """
    return _converter(type)(data)


@cache
def _writing(kind: Any) -> tuple[tuple[str, str, bool, Convert], ...]:
    """`_written`, and how each field becomes JSON; one of `Any` is JSON, however deep it is."""
    ways = [
        _as_it_is if each.type in (Any, "Any") else each.metadata.get("write", to_json)
        for each in fields(kind)
    ]
    return tuple((*about, way) for about, way in zip(_written(kind), ways, strict=True))


def _as_it_is(value: Any) -> Any:
    return value


@cache
def _written(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    return tuple(
        (each.name, each.metadata.get("json", each.name), bool(each.metadata.get("left_out")))
        for each in fields(kind)
    )


@cache
def _converter(hint: Any) -> Convert:
    """How JSON becomes a value of the type; types that are JSON themselves stay as they are."""
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
    return lambda data: data


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


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_VALID = re.compile(r"[A-Za-z0-9_\-.:@]{1,128}")
NOT_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Not allowed in names and ids: control characters, line breaks and lone surrogates."""
_GENERATED = re.compile(r"[a-z]+_[0-9a-z]{20}(?![0-9a-z])")
_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9_]{0,30}[a-z0-9])?")


def new_id(prefix: str) -> str:
    """A fresh id such as ``ses_01k9w3…``: 48 bits of milliseconds, then 52 random bits."""
    value = (time.time_ns() // 1_000_000) << 52 | int.from_bytes(os.urandom(7), "big") >> 4
    digits = "".join([_PAIRS[value >> at & 1023] for at in range(90, -1, -10)])
    return f"{prefix}_{digits}"


def generated_part(value: str) -> str:
    """The id of `new_id` that `value` begins with; empty if it begins with none."""
    found = _GENERATED.match(value)
    return "" if found is None else found.group()


def check_id(value: str, *, what: str) -> str:
    """`value` unchanged, or `UserError` if it is not a valid id."""
    if not _VALID.fullmatch(value) or value in (".", ".."):
        raise UserError(
            f"{value[:80]!r} is not a valid {what}: use 1 to 128 letters, digits and _ - . : @"
        )
    return value


def check_line(value: object, *, what: str, longest: int = 500) -> str:
    """`value` unchanged, or `UserError` if it is not one line of text that can be a name."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise UserError(f"{what} is a text of 1 to {longest} characters, not {value!r:.80}")
    if NOT_IN_NAMES.search(value) is not None:
        raise UserError(
            f"{what}, {value[:80]!r}, has control characters, line breaks or lone "
            "surrogates: leave them out"
        )
    return value


def is_tenant(name: object) -> bool:
    """Whether it is a valid tenant name."""
    return isinstance(name, str) and _TENANT.fullmatch(name) is not None


_NESTED = (dict, list, tuple)

loads = json.loads


def _encoder(*, is_ascii: bool) -> tuple[Callable[[Any], str], Callable[[Any], str]]:
    """Encodes a value as compact JSON: fast for acyclic JSON, else like `json`, with its errors.

    `json` makes a new encoder for every value, which for a small value takes as long as encoding
    it; with Python's C implementation, one encoder is kept.
    """
    careful = json.JSONEncoder(ensure_ascii=is_ascii, separators=(",", ":"), allow_nan=False).encode
    make: Any = getattr(_parts, "c_make_encoder", None)
    quote: Any = _parts.encode_basestring_ascii if is_ascii else _parts.encode_basestring
    try:
        kept = make(None, json.JSONEncoder().default, quote, None, ":", ",", False, False, False)
        if "".join(kept({"a": [1, None]}, 0)) != '{"a":[1,null]}':
            return careful, careful
    except (TypeError, ValueError):
        return careful, careful
    return (lambda value: "".join(kept(value, 0))), careful


_encode, _encode_carefully = _encoder(is_ascii=False)
quick_ascii, _ascii = _encoder(is_ascii=True)
"""To ASCII, for what is JSON anyway: it does not look for circles."""

MAX_DEPTH = 200
"""How deep a value that callers store may be nested: a deeper one cannot be copied everywhere."""


def dumps(value: Any) -> str:
    """`value` as compact JSON text that any database accepts.

    Text stays readable UTF-8. A lone surrogate, which a model can produce with a broken escape and
    which no database stores, is kept as its escape. Raises `TypeError` or `ValueError` for what is
    not JSON.
    """
    try:
        text = _encode(value)
    except RecursionError:
        text = _encode_carefully(value)  # It tells a circle from what is too deep.
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ascii(value)
    return text


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Whether more than `most` lists and objects are nested; for JSON values."""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(most):
        level = [
            each
            for part in level
            for each in (part.values() if isinstance(part, dict) else part)
            if isinstance(each, _NESTED)
        ]
        if not level:
            return False
    return bool(level)


Priority: TypeAlias = Literal["low", "normal", "high", "urgent"]

PRIORITIES: Mapping[str, int] = {"low": 1, "normal": 2, "high": 3, "urgent": 4}
"""The names of priorities and their numbers; higher goes first."""


def priority_number(value: int | str) -> int:
    """A priority as its number; `UserError` for an invalid one."""
    if isinstance(value, str):
        number = PRIORITIES.get(value)
        if number is not None:
            return number
    elif type(value) is int and value in (1, 2, 3, 4):
        return value
    raise UserError(f"{value!r:.40} is not a priority: low (1), normal (2), high (3) or urgent (4)")
