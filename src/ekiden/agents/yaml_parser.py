"""Reads YAML 1.2 without aliases, tags and deep nesting. Syntax errors suggest a correction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from ekiden.agents.yaml_nodes import (
    MAX_DEPTH,
    MAX_NODES,
    Mapping,
    Node,
    Scalar,
    Sequence,
    YamlFault,
)

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


class _Unclosed(NamedTuple):
    """A bracket that is not closed."""

    at: int
    """Its index in the text."""
    message: str


class _Lines:
    """Converts an index in the text to line and column.

    The parser's own lines are not used: it counts more characters as line breaks than editors do.
    """

    def __init__(self, text: str, first_line: int) -> None:
        self._starts = [0]
        for line in text.split("\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._first = first_line
        self._text = text

    def of(self, event: Any) -> tuple[int, int]:
        """Where the event begins; for an empty item, where its dash is."""
        index = event.start_mark.index
        if isinstance(event, ScalarEvent) and event.start_mark.index == event.end_mark.index:
            index = max(self._text.rfind("-", 0, index), 0)
        return self.at(index)

    def at(self, index: int) -> tuple[int, int]:
        row = bisect_right(self._starts, index) - 1
        return row + self._first, index - self._starts[row] + 1


def parse_yaml(text: str, *, first_line: int = 1) -> Node | None:
    """Return the document in `text`, or `None` if `text` is empty. Raises `YamlFault` for a syntax
    error.

    The line breaks in `text` are ``\\n``. Its first line is the line `first_line` of the file.
    """
    lines = _Lines(text, first_line)
    try:
        return _built(_events(text), lines)
    except ReaderError as exc:
        raise YamlFault(
            *lines.at(exc.position),
            "yaml_syntax",
            f"the character U+{int(exc.character):04X} is not allowed here; remove it, or write "
            'it as an escape in double quotes, as in "\\u00ad"',
        ) from exc
    except MarkedYAMLError as exc:
        raise _fault(exc, text, lines, first_line) from exc
    except (YAMLError, ValueError, AssertionError, IndexError, TypeError, AttributeError) as exc:
        # The parser does not check some of its assumptions: it fails with these errors.
        raise YamlFault(first_line, 1, "yaml_syntax", _explained(str(exc), None)) from exc


def _fault(exc: MarkedYAMLError, text: str, lines: _Lines, first_line: int) -> YamlFault:
    mark, begin = exc.problem_mark or exc.context_mark, exc.context_mark
    if mark is None:
        return YamlFault(first_line, 1, "yaml_syntax", _explained(exc.problem, exc.context))
    bracket = _unclosed(text, exc.problem, None if begin is None else begin.index, mark.index)
    if bracket is not None:
        return YamlFault(*lines.at(bracket.at), "yaml_syntax", bracket.message)
    return YamlFault(*lines.at(mark.index), "yaml_syntax", _explained(exc.problem, exc.context))


def _events(text: str) -> Iterator[Any]:
    reader = YAML(typ="safe", pure=True)
    yield from reader.parse(text)


def _built(events: Iterator[Any], lines: _Lines) -> Node | None:
    """The root node. Iterative: deep nesting reaches our limit, not Python's recursion limit."""
    root: Node | None = None
    documents = count = 0
    open_nodes: list[_Open] = []
    for event in events:
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise YamlFault(
                    *lines.at(event.start_mark.index),
                    "yaml_syntax",
                    "a second document begins here; front matter has only one",
                )
            continue
        if isinstance(event, CollectionEndEvent):
            open_nodes.pop()
            continue
        if not isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent | AliasEvent):
            continue
        place = lines.of(event)
        count += 1
        _check_allowed(event, place, count, len(open_nodes))
        node = _node(event, place)
        if open_nodes:
            open_nodes[-1].take(node)
        else:
            root = node
        if not isinstance(node, Scalar):
            open_nodes.append(_Open(node))
    return root


class _Open:
    """A list or mapping that is still being filled."""

    __slots__ = ("_key", "_node")

    def __init__(self, node: Sequence | Mapping) -> None:
        self._node = node
        self._key: Scalar | None = None

    def take(self, node: Node) -> None:
        if isinstance(self._node, Sequence):
            self._node.items.append(node)
        elif self._key is not None:
            if isinstance(node, Scalar) and node.plain and not node.text:
                # An empty value has no place of its own.
                node.line, node.column = self._key.line, self._key.column
            self._node.entries.append((self._key, node))
            self._key = None
        elif isinstance(node, Scalar):
            self._key = node
        else:
            raise YamlFault(
                node.line, node.column, "yaml_syntax", "a key must be a text, not a list or mapping"
            )


def _check_allowed(event: Any, place: tuple[int, int], count: int, depth: int) -> None:
    if isinstance(event, AliasEvent) or event.anchor is not None:
        sign = "*" if isinstance(event, AliasEvent) else "&"
        raise YamlFault(
            *place,
            "yaml_alias",
            f"aliases and anchors are not allowed ({sign}{str(event.anchor)[:40]}); write the "
            f"value out, or put a text that begins with {sign} in quotes",
        )
    if event.ctag is not None:
        raise YamlFault(
            *place,
            "yaml_tag",
            f"tags are not allowed ({str(event.ctag)[:40]}); leave it out, or put a text that "
            "begins with ! in quotes",
        )
    if count > MAX_NODES:
        raise YamlFault(
            *place, "too_large", f"the front matter has more than {MAX_NODES:,} values; shorten it"
        )
    if depth >= MAX_DEPTH and not isinstance(event, ScalarEvent):
        raise YamlFault(
            *place,
            "too_deep",
            f"lists and mappings are nested more than {MAX_DEPTH} deep; flatten them",
        )


def _node(event: Any, place: tuple[int, int]) -> Node:
    if isinstance(event, SequenceStartEvent):
        return Sequence([], *place)
    if isinstance(event, MappingStartEvent):
        return Mapping([], *place)
    return Scalar(event.value, event.style is None, *place)


def _explained(problem: str | None, context: str | None) -> str:
    """The parser's message, replaced by one with a way out where we have one."""
    original = f"{context or ''} {problem or ''}"
    for part, advice in _ADVICE:
        if part in original:
            return advice
    words = " ".join((problem or context or "unknown").split())[:200]
    return f"this is not YAML: {words}"


def _unclosed(text: str, problem: str | None, begin: int | None, end: int) -> _Unclosed | None:
    """The ``[`` or ``{`` that caused a fault, if one did.

    The parser began a list or mapping at `begin`. At `end` it found the end of the text, a key of
    another line or the wrong bracket before the closing bracket.
    """
    problem = problem or ""
    if not problem.startswith(_NOT_CLOSED):
        return None
    at_end = "stream end" in problem
    if begin is None or text[begin : begin + 1] not in _CLOSED_BY:
        begin = _last_open(text[:end]) if at_end else None
    if begin is None or ("<scalar>" in problem and text[end - 1 : end] != "\n"):
        return None
    row = text.count("\n", begin, end)
    if not at_end and row == 0 and not problem.endswith(("'}'", "']'")):
        return None
    sign = text[begin]
    closing, example = _CLOSED_BY[sign]
    reach = "is never closed"
    if not at_end and row:
        line = "the next line" if row == 1 else "a line below"
        reach = f"is not closed, or a comma is missing before {line}"
    return _Unclosed(
        begin,
        f"this {sign} {reach}; write {closing} behind the last item, as in {example}, or put a "
        f"text that has {sign} in quotes",
    )


def _last_open(text: str) -> int | None:
    """The index of the last bracket that is not closed."""
    closed = 0
    for index in range(len(text) - 1, -1, -1):
        if text[index] in "]}":
            closed += 1
        elif text[index] in _CLOSED_BY:
            if not closed:
                return index
            closed -= 1
    return None
