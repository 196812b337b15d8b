"""Reads front matter as a mapping, and also accepts texts that are not valid YAML.

Many agent files have a description such as ``Use this when: the build fails``, which is not valid
YAML because of the colon. If the front matter is not valid YAML, the text of each key in
`TEXT_KEYS` is parsed alone. If the text of a key is not valid YAML either, it is taken literally,
with a warning.

Files that were written for another tool are read more tolerantly: tabs count as spaces, a text ends
before the next line with a key, each key is parsed alone, and unreadable lines are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ekiden.agents.definition import FIRST_LINE, ProblemReport
from ekiden.agents.yaml_nodes import Mapping, Node, Scalar, YamlFault, quick_yaml, surely_no_yaml
from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import lazy_pattern

TEXT_KEYS = frozenset({"title", "description", "handoff_description", "handoffDescription"})
"""The keys whose text is taken literally if it is not valid YAML."""

_ENTRY = lazy_pattern(r"(?P<key>[A-Za-z_]+):[ \t]+(?P<text>\S.*)")
_LINE = lazy_pattern(
    r"(?P<key>[A-Za-z_][\w.-]*|\"[\w .-]+\"|'[\w .-]+')[ \t]*:(?:[ \t]+|$)(?P<text>.*)"
)
_WRITTEN_OUT = lazy_pattern(r"[\"']|[|>][-+0-9]*[ \t]*(?:#.*)?$")
"""Quoted texts and text blocks; they are never taken literally."""


@dataclass(frozen=True, slots=True)
class _Entry:
    key: Scalar
    text: Scalar
    first: str
    """The text on the line of the key."""
    start: int
    end: int
    """The last row of the entry in the front matter, plus 1."""


IsKey: TypeAlias = Callable[[str], bool]
"""A function that returns whether a word before a colon is a key of another tool's files. Otherwise
the word is part of a text."""


def parse_front_matter(
    front: str,
    report: ProblemReport,
    *,
    is_key: IsKey | None = None,
    is_strict: IsKey | None = None,
) -> Mapping | None:
    """Return the front matter as a mapping. If it cannot be read, report the fault and return
    `None`.

    `is_key` is given if the file was written for another tool. An unreadable key is then an error
    if `is_strict` accepts it; otherwise the key is ignored with a warning.
    """
    report.front = front
    if is_key is not None and "\t" in front:
        front = _without_tabs(front, report)
    root: Node | None = quick_yaml(front, first_line=FIRST_LINE)
    if root is None and is_key is None:
        root = _quick_with_literals(front, report)
    if root is None:
        try:
            if is_key is not None and _has_literal(front, is_key):
                root = _by_key(front, report, is_key, is_strict or is_key)
            else:
                root = _complete(front)
        except YamlFault as fault:
            if is_key is not None:
                root = _by_key(front, report, is_key, is_strict or is_key)
            else:
                root = _with_literals(front, fault, report)
            if root is None:
                return None
    if not isinstance(root, Mapping):
        report.error(
            root,
            "no_keys",
            "the front matter has no keys; write lines such as name: debugger between the two ---",
        )
        return None
    _take_comments_as_texts(root, front, report)
    return root


def _complete(front: str, first_line: int = FIRST_LINE) -> Node | None:
    # Loading the parser takes longer than reading a hundred files that do not need it.
    from ekiden.agents.yaml_parser import parse_yaml

    return parse_yaml(front, first_line=first_line)


def _quick_with_literals(front: str, report: ProblemReport) -> Node | None:
    """The result of `_with_literals` without the complete parser, where the fast one is certain."""
    lines = front.split("\n")
    literal = [entry for entry in _entries(lines) if surely_no_yaml(entry.first)]
    if not literal:
        return None
    _blank(lines, literal)
    root = quick_yaml("\n".join(lines), first_line=FIRST_LINE)
    return None if root is None else _put_in(root, literal, report)


def _with_literals(front: str, fault: YamlFault, report: ProblemReport) -> Node | None:
    """The front matter; text keys that are not YAML by themselves are taken literally."""
    lines = front.split("\n")
    literal = [entry for entry in _entries(lines) if not _is_yaml(lines[entry.start : entry.end])]
    _blank(lines, literal)
    try:
        if not literal:
            raise fault
        root = _complete("\n".join(lines)) or Mapping([], FIRST_LINE, 1)
    except YamlFault as remaining:
        report.error(remaining, remaining.code, remaining.message)
        root = None
    return _put_in(root, literal, report)


def _without_tabs(front: str, report: ProblemReport) -> str:
    before, tab, _ = front.partition("\t")
    line, column = before.count("\n") + FIRST_LINE, len(before) - before.rfind("\n")
    spot = Scalar(tab, True, line, column)
    report.warning(spot, "tab", "there is a tab here, which is read as two spaces")
    return front.replace("\t", "  ")


def _by_key(front: str, report: ProblemReport, is_key: IsKey, is_strict: IsKey) -> Mapping:
    """The front matter of another tool's file: each top-level key is parsed alone."""
    root = Mapping([], FIRST_LINE, 1)
    for row, lines in _pieces(front.split("\n"), is_key):
        match = _LINE.match(lines[0])
        if match is None:
            if any(line.strip() and not line.startswith("#") for line in lines):
                spot = Scalar("", True, row + FIRST_LINE, 1)
                report.warning(spot, "passed_over", "this line has no key and is ignored")
            continue
        key = Scalar(match["key"].strip("'\""), True, row + FIRST_LINE, 1)
        found = None if _is_literal(lines) else _piece(lines, row + FIRST_LINE)
        if isinstance(found, Mapping):
            root.entries += found.entries
            continue
        first = match["text"].strip()
        is_one = not any(line.strip() for line in lines[1:])
        if found is None or key.text in TEXT_KEYS or (is_one and first and first[0] not in "[{|>"):
            column = match.start("text") + 1
            text = Scalar(_unquoted(_joined([first, *lines[1:]])), False, key.line, column)
            _warn(key, text, report)
            root.entries.append((key, text))
        elif is_strict(key.text):
            report.error(found, found.code, found.message)
        else:
            words = f"`{key.text[:60]}` is ignored: {found.message}"
            report.warning(found, "passed_over", words)
    return root


def _has_literal(front: str, is_key: IsKey) -> bool:
    """Whether a top-level text makes the front matter certainly not YAML."""
    for _, lines in _pieces(front.split("\n"), is_key):
        if _is_literal(lines):
            return True
        if quick_yaml("\n".join([*lines, ""])) is None:
            return False
    return False


def _is_literal(lines: list[str]) -> bool:
    """Whether these lines are a key with a text that is certainly not YAML."""
    match = _ENTRY.fullmatch(lines[0])
    return match is not None and match["key"] in TEXT_KEYS and surely_no_yaml(match["text"])


def _piece(lines: list[str], first_line: int) -> Mapping | YamlFault:
    """The mapping in these lines, or the fault."""
    try:
        found = quick_yaml("\n".join([*lines, ""]), first_line=first_line) or _complete(
            "\n".join(lines), first_line
        )
    except YamlFault as fault:
        return fault
    return found if isinstance(found, Mapping) else Mapping([], first_line, 1)


def _pieces(lines: list[str], is_key: IsKey) -> Iterator[tuple[int, list[str]]]:
    """The lines of each key, with the row of the first.

    After a text, a line begins another key only if `is_key` knows the key.
    """
    start, in_text = 0, False
    for row, line in enumerate(lines):
        match = _LINE.match(line)
        if match is None or (in_text and not is_key(match["key"].strip("'\""))):
            continue
        if row > start:
            yield start, lines[start:row]
        start, in_text = row, match["key"] in TEXT_KEYS
    yield start, lines[start:]


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text.removeprefix("|").removeprefix(">").strip()


def _blank(lines: list[str], literal: list[_Entry]) -> None:
    for entry in literal:
        lines[entry.start : entry.end] = [""] * (entry.end - entry.start)


def _put_in(root: Node | None, literal: list[_Entry], report: ProblemReport) -> Node | None:
    """Add the literal texts to the other keys, in the order of the file."""
    for entry in literal:
        _warn(entry.key, entry.text, report)
    if isinstance(root, Mapping):
        root.entries.extend((entry.key, entry.text) for entry in literal)
        root.entries.sort(key=lambda entry: entry[0].line)
    return root


def _entries(lines: list[str]) -> list[_Entry]:
    """The top-level text keys, each with the indented lines after it."""
    found: list[_Entry] = []
    for row, line in enumerate(lines):
        match = _ENTRY.fullmatch(line)
        if match is None or match["key"] not in TEXT_KEYS or _WRITTEN_OUT.match(match["text"]):
            continue
        end = row + 1
        while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t"):
            end += 1
        while not lines[end - 1].strip():
            end -= 1
        text = _joined([match["text"], *lines[row + 1 : end]])
        number = row + FIRST_LINE
        found.append(
            _Entry(
                Scalar(match["key"], True, number, 1),
                Scalar(text, False, number, match.start("text") + 1),
                match["text"],
                row,
                end,
            )
        )
    return found


def _is_yaml(lines: list[str]) -> bool:
    try:
        _complete("\n".join(lines))
    except YamlFault:
        return False
    return True


def _joined(lines: list[str]) -> str:
    """The lines joined as YAML joins a plain text: a blank line is a line break."""
    paragraphs: list[list[str]] = [[]]
    for line in map(str.strip, lines):
        if line:
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    return "\n".join(" ".join(words) for words in paragraphs)


def _take_comments_as_texts(root: Mapping, front: str, report: ProblemReport) -> None:
    """Set the text of keys whose text begins with ``#``, a comment in YAML."""
    for index, (key, value) in enumerate(root.entries):
        if key.text not in TEXT_KEYS or not isinstance(value, Scalar):
            continue
        if value.text or not value.plain:
            continue
        line = front.split("\n")[key.line - FIRST_LINE]
        match = _ENTRY.fullmatch(line)
        if match is not None and match["text"].startswith("#"):
            text = Scalar(match["text"].rstrip(), False, key.line, match.start("text") + 1)
            root.entries[index] = (key, text)
            _warn(key, text, report, "is a comment for YAML")


def _warn(key: Scalar, text: Scalar, report: ProblemReport, why: str = "is not valid YAML") -> None:
    report.warning(
        text,
        "literal_text",
        f"`{key.text}` {why}, and is read as plain text; put it in quotes, or write "
        f"`{key.text}: |` and the text on the next lines, indented",
    )
