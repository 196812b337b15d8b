"""What a YAML parser says, in words that tell what to write instead."""

from __future__ import annotations

_ADVICE = (
    ("'\\t' that cannot start", "there is a tab here; write spaces instead"),
    (
        "mapping values are not allowed",
        "a colon and a space make this a second key; put the text in quotes",
    ),
    (
        "could not find expected ':'",
        "this line is no key: write key: value, or indent it if it belongs to the line above",
    ),
    ("cannot start any token", "a value cannot begin with this character; put the text in quotes"),
    ("unexpected end of stream", "a quote that was opened before is never closed; close it"),
    ("unknown escape character", "in double quotes \\ begins an escape; write \\\\, or use single"),
    (
        "expected ',' or ']'",
        "a list in [ ] is not closed, or a comma is missing; put a text with [ in quotes",
    ),
    (
        "expected ',' or '}'",
        "a mapping in { } is not closed, or a comma is missing; put a text with { in quotes",
    ),
    (
        "expected <block end>",
        "this is indented differently from the lines above, or stands behind a value that "
        "has ended; align it, or put the whole text in quotes",
    ),
    (
        "while scanning a block scalar",
        "nothing may follow | or > on its line; write the text on the next lines, indented",
    ),
    (
        "sequence entries are not allowed",
        "a list with - begins on the next line; begin a text with - in quotes",
    ),
    ("chr() arg", "an escape such as \\U00ffffff is no character; write another one"),
)


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
