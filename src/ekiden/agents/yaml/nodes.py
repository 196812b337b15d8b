"""What front matter consists of: texts, lists and mappings, each with its place in the file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

MAX_DEPTH = 20
"""How deep lists and mappings may be nested."""
MAX_NODES = 10_000
"""How many values front matter may have."""


@dataclass(slots=True)
class Scalar:
    """A single value, as it is written."""

    text: str
    plain: bool
    """Written without quotes: only then it can be a number, a truth value or nothing."""
    line: int
    column: int


@dataclass(slots=True)
class Sequence:
    """A list."""

    items: list[Node]
    line: int
    column: int


@dataclass(slots=True)
class Mapping:
    """Keys and values in the order of the file; a key may be there twice."""

    entries: list[tuple[Scalar, Node]]
    line: int
    column: int


Node: TypeAlias = Scalar | Sequence | Mapping
Plain: TypeAlias = str | int | float | bool | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NUMBER = re.compile(
    r"(?P<int>[-+]?[0-9]+)|(?P<octal>0o[0-7]+)|(?P<hex>0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<infinite>[-+]?\.(?:inf|Inf|INF))|(?P<nan>\.(?:nan|NaN|NAN))"
)
_MAX_DIGITS = 400
"""Python itself refuses to read whole numbers of more than 4,300 digits."""
_BASES = {"int": 10, "octal": 8, "hex": 16}


def value_of(scalar: Scalar) -> Plain:
    """What YAML 1.2 (its core schema) takes the value for."""
    text = scalar.text
    if not scalar.plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > _MAX_DIGITS:
        return text
    found = _NUMBER.fullmatch(text)
    kind = found.lastgroup if found else None
    if kind is None:
        return text
    if kind in _BASES:
        return int(text if kind == "int" else text[2:], _BASES[kind])
    return float(text.replace(".", "", 1) if kind in ("infinite", "nan") else text)
