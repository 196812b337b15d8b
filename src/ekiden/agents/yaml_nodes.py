"""YAML nodes with their places in the file, and a fast reader for the most frequent forms of YAML.

The complete parser takes some milliseconds for each file, which is too long for a thousand files.
The fast reader supports only block mappings with simple keys, block lists, texts in one line (plain
or quoted), lists of such texts in brackets, and texts in ``|`` and ``>`` blocks. For any other text
it returns `None`, and the complete parser reads the text. Otherwise it returns exactly the nodes
and places that the complete parser would return. Tests compare the results of both for generated
and mutated files.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import lazy_pattern

MAX_DEPTH = 20
"""The maximum nesting depth of lists and mappings."""
MAX_NODES = 10_000
"""The maximum number of values in the front matter."""


@dataclass(slots=True)
class Scalar:
    """A single value, as the file writes it."""

    text: str
    plain: bool
    """Whether the value is written without quotes. Only such a value can be a number, a boolean or
    null."""
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
    """Keys and values in the order of the file. A key may occur twice."""

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
    """The value of the scalar according to the core schema of YAML 1.2."""
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


_UNSURE = lazy_pattern(
    "[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    r"|^(?:---|\.\.\.|%)",
    re.MULTILINE,
)
"""Tabs, other control characters, unusual line breaks; marks of documents and directives."""

_KEY = lazy_pattern(r"([A-Za-z_][A-Za-z0-9_-]{0,99}):(?: +|$)")
_ITEM = lazy_pattern(r"-(?: +)(?=[^ ])")
_PLAIN = lazy_pattern(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`](?:[^:#]|:(?=[^ ])|(?<! )#)*")
_SINGLE = lazy_pattern(r"'((?:[^']|'')*)'")
_DOUBLE = lazy_pattern(r'"((?:[^"\\]|\\["\\/nt])*)"')
_ESCAPE = lazy_pattern(r"\\(.)")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t"}
_BLOCK = lazy_pattern(r"([|>])(-?) *")
_END = lazy_pattern(r" *(?: #.*)?")
_FLOW_ITEM = lazy_pattern(
    r" *(?P<item>'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\""
    r"|(?P<plain>[A-Za-z0-9_/.\u00c0-\u052f\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7a3]"
    r"(?:[^,\[\]{}:#'\"?&*!|>%@`]|:(?=[A-Za-z0-9_]))*)"
    r") *(?P<end>[,\]])"
)


class _Unsure(Exception):
    """Only the complete parser can read the text."""


def quick_yaml(text: str, *, first_line: int = 1) -> Mapping | None:
    """The mapping in `text`, or `None` if only the complete parser can decide."""
    if not text.endswith("\n") or _UNSURE.search(text):
        return None
    reader = _Reader(text.split("\n"), first_line)
    try:
        root = reader.mapping(reader.next_line(0), 0, 1)
    except _Unsure:
        return None
    return root if reader.row >= len(reader.lines) and reader.count <= MAX_NODES else None


def surely_no_yaml(text: str) -> bool:
    """Whether this package certainly refuses `text` as the YAML value of a key.

    `False` means that only the complete parser can decide.
    """
    if _UNSURE.search(text):
        return False
    if text[0] in "@`%*&!":
        return True
    found = _PLAIN.match(text)
    return found is not None and text[found.end() : found.end() + 1] == ":"


class _Reader:
    """Reads the lines once; `row` is the next unread line."""

    def __init__(self, lines: list[str], first_line: int) -> None:
        self.lines = lines
        self.indents = [len(line) - len(line.lstrip(" ")) for line in lines]
        self.first = first_line
        self.row = 0
        self.count = 0

    def next_line(self, row: int) -> int:
        """The first row at or after `row` that is neither blank nor a comment, or the row count."""
        lines, indents = self.lines, self.indents
        while row < len(lines):
            line = lines[row]
            indent = indents[row]
            if indent < len(line) and line[indent] != "#":
                break
            row += 1
        return row

    def indent_at(self, row: int) -> int:
        """The indentation of `row`; -1 at the end of the text, which ends all blocks."""
        return self.indents[row] if row < len(self.lines) else -1

    def block(self, row: int, indent: int, depth: int) -> Node:
        """The list or mapping that begins at `row`."""
        if depth > MAX_DEPTH:
            raise _Unsure
        if self.lines[row][indent] == "-":
            return self.sequence(row, indent, depth)
        return self.mapping(row, indent, depth)

    def mapping(self, row: int, indent: int, depth: int, *, after_dash: bool = False) -> Mapping:
        """The mapping with keys at `indent`. Its first key can be on the line of a list's dash."""
        entries: list[tuple[Scalar, Node]] = []
        node = Mapping(entries, row + self.first, indent + 1)
        self.count += 1
        while self.indent_at(row) == indent or after_dash:
            after_dash = False
            line = self.lines[row]
            found = _KEY.match(line, indent)
            if found is None:
                raise _Unsure
            key = Scalar(found[1], True, row + self.first, indent + 1)
            entries.append((key, self.value(row, found.end(), indent, depth)))
            self.count += 1
            row = self.row
        if self.indent_at(row) > indent or not entries:
            raise _Unsure
        return node

    def sequence(self, row: int, indent: int, depth: int) -> Sequence:
        """The list with dashes at `indent`."""
        items: list[Node] = []
        node = Sequence(items, row + self.first, indent + 1)
        self.count += 1
        while self.indent_at(row) == indent:
            found = _ITEM.match(self.lines[row], indent)
            if found is None:
                break
            items.append(self.item(row, found.end(), indent, depth))
            row = self.row
        if self.indent_at(row) > indent or not items:
            raise _Unsure
        return node

    def item(self, row: int, column: int, indent: int, depth: int) -> Node:
        """The value after a dash."""
        if _KEY.match(self.lines[row], column):
            if depth >= MAX_DEPTH:
                raise _Unsure
            return self.mapping(row, column, depth + 1, after_dash=True)
        return self.scalar_or_list(row, column, indent, depth)

    def value(self, row: int, column: int, indent: int, depth: int) -> Node:
        """The value of a key: on its line, or on the lines below it."""
        line = self.lines[row]
        if column < len(line) and line[column] != "#":
            return self.scalar_or_list(row, column, indent, depth)
        self.row = below = self.next_line(row + 1)
        inner = self.indent_at(below)
        if inner > indent:
            return self.block(below, inner, depth + 1)
        if inner == indent and self.lines[below].startswith("- ", inner):
            return self.block(below, inner, depth + 1)
        self.count += 1
        return Scalar("", True, row + self.first, indent + 1)

    def scalar_or_list(self, row: int, column: int, indent: int, depth: int) -> Node:
        """The value that begins at `column`; only a text block can continue on the next lines."""
        line = self.lines[row]
        sign = line[column]
        self.count += 1
        if sign == "|" or sign == ">":
            return self.text_block(row, column, indent)
        node: Node
        if sign == "[":
            if depth >= MAX_DEPTH:
                raise _Unsure
            node, end = self.flow_list(row, column)
        else:
            text, end = _one_line(line, column, sign)
            node = Scalar(text, sign not in "'\"", row + self.first, column + 1)
        if not _END.fullmatch(line, end):
            raise _Unsure
        self.row = self.next_line(row + 1)
        if self.indent_at(self.row) > indent:
            raise _Unsure
        return node

    def flow_list(self, row: int, column: int) -> tuple[Sequence, int]:
        """A list in brackets, and the column after it."""
        line, number = self.lines[row], row + self.first
        node = Sequence([], number, column + 1)
        if line.startswith("[]", column):
            return node, column + 2
        position = column + 1
        while True:
            found = _FLOW_ITEM.match(line, position)
            if found is None:
                raise _Unsure
            plain = found["plain"]
            quoted = found["single"] if found["double"] is None else found["double"]
            text = quoted if plain is None else plain.rstrip(" ")
            node.items.append(Scalar(text, plain is not None, number, found.start("item") + 1))
            self.count += 1
            position = found.end()
            if found["end"] == "]":
                return node, position

    def text_block(self, row: int, column: int, indent: int) -> Scalar:
        """A text on the lines below, with line breaks kept (``|``) or folded (``>``)."""
        header = _BLOCK.fullmatch(self.lines[row], column)
        first = row + 1
        inner = self.indent_at(first)
        if header is None or inner <= indent or inner >= len(self.lines[first]):
            raise _Unsure
        end = first
        while end < len(self.lines) and (
            self.indents[end] >= inner or self.indents[end] == len(self.lines[end])
        ):
            end += 1
        self.row = self.next_line(end)
        if indent < self.indent_at(end) or indent < self.indent_at(self.row):
            raise _Unsure
        content = [line[inner:] for line in self.lines[first:end]]
        while content and not content[-1]:
            content.pop()
        text = "\n".join(content) if header[1] == "|" else _folded(content)
        text = text if header[2] else text + "\n"
        return Scalar(text, False, row + self.first, column + 1)


def _one_line(line: str, column: int, sign: str) -> tuple[str, int]:
    """A plain or quoted text, and the column after it."""
    if sign == "'":
        found = _SINGLE.match(line, column)
        if found is None:
            raise _Unsure
        return found[1].replace("''", "'"), found.end()
    if sign == '"':
        found = _DOUBLE.match(line, column)
        if found is None:
            raise _Unsure
        return _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], found[1]), found.end()
    found = _PLAIN.match(line, column)
    if found is None:
        raise _Unsure
    text = found[0].rstrip(" ")
    return text, column + len(text)


def _folded(content: list[str]) -> str:
    """Lines of a paragraph become one; a blank line becomes a line break."""
    parts: list[str] = []
    blank = 0
    for line in content:
        if line.startswith(" "):
            raise _Unsure
        if not line:
            blank += 1
            continue
        if parts:
            parts.append("\n" * blank or " ")
        parts.append(line)
        blank = 0
    return "".join(parts)
