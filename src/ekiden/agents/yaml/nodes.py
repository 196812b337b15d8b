"""YAML as nodes with their places in the file."""

from __future__ import annotations

from typing import TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import lazy_pattern

MAX_DEPTH = 20
"""Maximum nesting of lists and mappings."""
MAX_NODES = 10_000
"""Maximum number of values in front matter."""


@dataclass(slots=True)
class Scalar:
    """A single value, as the file writes it."""

    text: str
    plain: bool
    """Written without quotes. Only a plain value can be a number, a boolean or null."""
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
    """Keys and values in the order of the file; a key may occur twice."""

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
_NUMBER = lazy_pattern(
    r"(?P<int>[-+]?[0-9]+)|(?P<octal>0o[0-7]+)|(?P<hex>0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<infinite>[-+]?\.(?:inf|Inf|INF))|(?P<nan>\.(?:nan|NaN|NAN))"
)
_MAX_DIGITS = 400
"""Python itself refuses to read whole numbers of more than 4,300 digits."""
_BASES = {"int": 10, "octal": 8, "hex": 16}


def value_of(scalar: Scalar) -> Plain:
    """The value according to the core schema of YAML 1.2."""
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


class YamlFault(Exception):
    """A syntax error in front matter, with its place."""

    def __init__(self, line: int, column: int, code: str, message: str) -> None:
        super().__init__(message)
        self.line, self.column, self.code, self.message = line, column, code, message
