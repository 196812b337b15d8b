"""Parses JSON with comments and trailing commas, and keeps the position of every value.

Error messages show the positions as line and column. A change needs the positions to keep the rest
of the file. The parser of the standard library does not return positions.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import field
from functools import cached_property
from typing import NoReturn

from ekiden.core.dataclass import dataclass
from ekiden.core.values import loads

MAX_DEPTH = 32
"""The maximum nesting of objects and lists."""
MAX_VALUES = 10_000
_MAX_DIGITS = 400
"""Longer numbers are no settings, and slow to parse."""

_TRIVIAL = frozenset(" \t\r\n/")
_TRIVIA = re.compile(r"[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<rest>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
# The possessive repeat keeps long texts quick: a text without an end is not tried at each length.
# A possessive repeat of the group is wrong before Python 3.11.5, and nothing after it could fail.
_TEXT = re.compile(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_WORD = re.compile(r"[\w$+.-]+")
_LINE_END = re.compile(r"\r\n|\r|\n")
_LITERALS: dict[str, object] = {"true": True, "false": False, "null": None}


class JsoncError(ValueError):
    """The text is not JSON. `offset` is the position of the error."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class JsoncNode:
    """A value with its position in the text."""

    value: object
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JsoncMember:
    """A key with its value."""

    key: str
    start: int
    """The offset of the key."""
    node: JsoncNode
    comma: int | None
    """The offset of the comma after the value; `None` if there is none."""

    @property
    def end(self) -> int:
        return self.node.end


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNode(JsoncNode):
    """An object."""

    members: tuple[JsoncMember, ...]
    inside_end: int
    """The offset after the last member or comment in the object."""


@dataclass(frozen=True, kw_only=True)
class JsoncDocument:
    """A parsed JSON text with comments."""

    text: str
    root: JsoncNode | None
    """The value; `None` if there are only spaces and comments."""
    duplicates: tuple[JsoncMember, ...]
    """Members whose key also occurs earlier in the same object."""

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset; both begin at 1 and count characters."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self.text)


def line_starts(text: str) -> list[int]:
    """The offsets at which lines begin."""
    return [0, *(found.end() for found in _LINE_END.finditer(text))]


def parse(text: str) -> JsoncDocument:
    """Parse `text`. Raises `JsoncError` with the first position that is not JSON.

    ``// …`` and ``/* … */`` comments and a trailing comma are allowed. A byte order mark at the
    beginning counts as space. A repeated key is not an error of the parser (see
    `JsoncDocument.duplicates`).
    """
    scanner = _Scanner(text)
    scanner.skip()
    root = None if scanner.at_end else scanner.value(0)
    scanner.skip()
    if not scanner.at_end:
        scanner.fail("the end of the file")
    return JsoncDocument(text=text, root=root, duplicates=tuple(scanner.duplicates))


@dataclass(slots=True)
class _Scanner:
    text: str
    at: int = 0
    solid_end: int = 0
    """The offset after the last token or comment."""
    values: int = 0
    """The number of values so far."""
    duplicates: list[JsoncMember] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.text.startswith("\ufeff"):
            self.at = self.solid_end = 1

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def fail(self, wanted: str) -> NoReturn:
        """Raise `JsoncError` for the text at this position, where `wanted` is expected."""
        if self.at_end:
            raise JsoncError(f"the text ends, expected {wanted}", self.at)
        found = self.text[self.at]
        hint = {
            "'": "; text is written in double quotes",
            "#": "; a comment begins with //",
            "=": "; a key and its value are separated by a colon",
        }.get(found, "")
        raise JsoncError(f"found {found!r}, expected {wanted}{hint}", self.at)

    def skip(self) -> None:
        """Skip spaces and comments."""
        text = self.text
        while (first := text[self.at : self.at + 1]) in _TRIVIAL:
            found = _TRIVIA.match(text, self.at)
            if found is None:
                break
            self.at = found.end()
            if first == "/":
                self.solid_end = self.at
        if text.startswith("/*", self.at):
            raise JsoncError("this comment has no end; write */ behind it", self.at)

    def take(self, mark: str) -> bool:
        """Skip `mark` if it is the next token; returns whether it was."""
        self.skip()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += 1
        self.solid_end = self.at
        return True

    def value(self, depth: int) -> JsoncNode:
        start = self.at
        self.values += 1
        if self.values > MAX_VALUES:
            raise JsoncError(f"there are more than {MAX_VALUES:,} values up to here", start)
        if self.text.startswith(("{", "["), start):
            if depth >= MAX_DEPTH:
                raise JsoncError(f"objects and lists are nested more than {MAX_DEPTH} deep", start)
            return self._object(depth) if self.text[start] == "{" else self._list(depth)
        plain = self._string() if self.text.startswith('"', start) else self._word()
        self.solid_end = self.at
        return JsoncNode(value=plain, start=start, end=self.at)

    def _object(self, depth: int) -> ObjectNode:
        start = self.at
        self.at += 1
        self.solid_end = self.at
        members: list[JsoncMember] = []
        plain: dict[str, object] = {}
        may_go_on = True
        while True:
            self.skip()
            inside_end = self.solid_end
            if self.take("}"):
                break
            if not may_go_on:
                self.fail("a comma or }")
            member = self._member(depth)
            if member.key in plain:
                self.duplicates.append(member)
            plain[member.key] = member.node.value
            members.append(member)
            may_go_on = member.comma is not None
        return ObjectNode(
            value=plain, start=start, end=self.at, members=tuple(members), inside_end=inside_end
        )

    def _member(self, depth: int) -> JsoncMember:
        start = self.at
        if not self.text.startswith('"', start):
            word = _WORD.match(self.text, start)
            if word:
                raise JsoncError(f'a key is written in double quotes: "{word.group()[:60]}"', start)
            self.fail("a key or }")
        key = self._string()
        if not self.take(":"):
            self.fail("a colon")
        self.skip()
        node = self.value(depth + 1)
        comma = self.at - 1 if self.take(",") else None
        return JsoncMember(key=key, start=start, node=node, comma=comma)

    def _list(self, depth: int) -> JsoncNode:
        start = self.at
        self.at += 1
        plain: list[object] = []
        may_go_on = True
        while not self.take("]"):
            if not may_go_on:
                self.fail("a comma or ]")
            plain.append(self.value(depth + 1).value)
            may_go_on = self.take(",")
        return JsoncNode(value=plain, start=start, end=self.at)

    def _string(self) -> str:
        start = self.at
        body = _TEXT.match(self.text, start + 1)
        end = body.end() if body else start
        match self.text[end : end + 1]:
            case '"':
                self.at = end + 1
            case "":
                raise JsoncError("this text has no closing double quote", start)
            case "\\":
                raise JsoncError(
                    "this backslash is not a valid escape; write \\\\ for a backslash", end
                )
            case _:
                raise JsoncError(
                    "text must end on its line and have no tab in it; write \\n and \\t", end
                )
        quoted = self.text[start : self.at]
        text = str(loads(quoted)) if "\\" in quoted else quoted[1:-1]
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise JsoncError("this text has half of a \\u pair", start) from None
        return text

    def _word(self) -> object:
        start = self.at
        found = _WORD.match(self.text, start)
        if found is None:
            self.fail("a value")
        word = found.group()
        number = _NUMBER.fullmatch(word)
        if number is None and word not in _LITERALS:
            raise JsoncError(
                f"{word[:60]!r} is not a value; write true, false, null, a number, or text in "
                "double quotes",
                start,
            )
        self.at = found.end()
        if number is None:
            return _LITERALS[word]
        if len(word) > _MAX_DIGITS or not math.isfinite(float(word)):
            raise JsoncError("this number is too large", start)
        return float(word) if number["rest"] else int(word)
