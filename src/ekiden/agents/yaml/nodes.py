"""Front matter as nodes with places, and YAML errors that tell what to write instead."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import lazy_pattern

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
_NUMBER = lazy_pattern(
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


_ADVICE = (
    ("'\\t' that cannot start", "there is a tab here; write spaces instead"),
    (
        "mapping values are not allowed",
        "a colon and a space make this a second key; put the text in quotes",
    ),
    (
        "could not find expected ':'",
        "this line is not a key: write key: value, or indent it if it belongs to the line above",
    ),
    ("cannot start any token", "a value cannot begin with this character; put the text in quotes"),
    ("unexpected end of stream", "a quote that was opened before is never closed; close it"),
    ("unknown escape character", "in double quotes \\ begins an escape; write \\\\, or use single"),
    (
        "expected ',' or ']'",
        "a comma is missing before this, in a list in [ ]; or put the whole text in quotes",
    ),
    (
        "expected ',' or '}'",
        "a comma is missing before this, in a mapping in { }; or put the whole text in quotes",
    ),
    (
        "expected <block end>",
        "this is indented differently from the lines above, or follows a value that has ended; "
        "align it, or put the whole text in quotes",
    ),
    (
        "while scanning a block scalar",
        "nothing may follow | or > on its line; write the text on the next lines, indented",
    ),
    (
        "sequence entries are not allowed",
        "a list with - begins on the next line; begin a text with - in quotes",
    ),
    ("chr() arg", "an escape such as \\U00ffffff is not a character; write another one"),
)


_CLOSED_BY = {"[": ("]", "[a, b]"), "{": ("}", "{a: b, c: d}")}
_NOT_CLOSED = ("expected ',' or ']'", "expected ',' or '}'", "expected the node content")


class Unclosed(NamedTuple):
    """A bracket without its counterpart."""

    at: int
    """Where in the text it stands."""
    message: str


class YamlFault(Exception):
    """Front matter that cannot be read, with its place."""

    def __init__(self, line: int, column: int, code: str, message: str) -> None:
        super().__init__(message)
        self.line, self.column, self.code, self.message = line, column, code, message


def explained(problem: str | None, context: str | None) -> str:
    """A message with a way out for what the parser said."""
    said = f"{context or ''} {problem or ''}"
    for sign, advice in _ADVICE:
        if sign in said:
            return advice
    words = " ".join((problem or context or "unknown").split())[:200]
    return f"this is not YAML: {words}"


def unclosed(text: str, problem: str | None, begin: int | None, end: int) -> Unclosed | None:
    """The ``[`` or ``{`` that is to blame for a fault, if one is.

    That is where the parser, which began a list or mapping at `begin`, comes to the end of the
    text, to a key of another line or to the wrong bracket at `end` and still waits for its end.
    """
    said = problem or ""
    if not said.startswith(_NOT_CLOSED):
        return None
    at_end = "stream end" in said
    if begin is None or text[begin : begin + 1] not in _CLOSED_BY:
        begin = _last_open(text[:end]) if at_end else None
    if begin is None or ("<scalar>" in said and text[end - 1 : end] != "\n"):
        return None
    row = text.count("\n", begin, end)
    if not at_end and row == 0 and not said.endswith(("'}'", "']'")):
        return None
    sign = text[begin]
    closing, example = _CLOSED_BY[sign]
    reach = "is never closed"
    if not at_end and row:
        line = "the next line" if row == 1 else "a line below"
        reach = f"is not closed, or a comma is missing before {line}"
    return Unclosed(
        begin,
        f"this {sign} {reach}; write {closing} behind the last item, as in {example}, or put a "
        f"text that has {sign} in quotes",
    )


def _last_open(text: str) -> int | None:
    """The last opening bracket that has no counterpart behind it."""
    closed = 0
    for index in range(len(text) - 1, -1, -1):
        if text[index] in "]}":
            closed += 1
        elif text[index] in _CLOSED_BY:
            if not closed:
                return index
            closed -= 1
    return None
