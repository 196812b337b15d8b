"""Answers as Markdown on a terminal, also while they are streamed.

A model's text is untrusted: control characters are spelled out first, HTML and Rich markup are
shown as text, and links show their target. Text that cannot be drawn is printed unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ekiden.cli.output import safe

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import RenderableType

_MOST_COLOURED = 20_000
"""How many characters of code are highlighted; lexers are slow for more, and for hostile text."""
_CODE_THEME = "ansi_dark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A heading, a paragraph, a list, a code block …, or lines that Markdown would hide."""

    text: str
    is_markdown: bool = True


def blocks(text: str) -> list[Block]:
    """The blocks of a text; only empty lines are left out."""
    lines = text.split("\n")
    found: list[Block] = []
    done = 0
    for start, end in _places(text):
        found.extend(_hidden(lines[done:start]))
        found.append(Block(text="\n".join(lines[start:end]).rstrip("\n")))
        done = end
    return [*found, *_hidden(lines[done:])]


def finished_part(text: str) -> int:
    """How many characters of a streamed text are in blocks that can no longer change.

    That is everything before the last block of the complete lines.
    """
    places = _places(text[: text.rfind("\n") + 1])
    if len(places) < 2:
        return 0
    return sum(len(line) + 1 for line in text.split("\n")[: places[-1][0]])


def tail(text: str, lines: int) -> str:
    """The last lines of a block; a code block keeps its opening line."""
    rows = text.split("\n")
    if len(rows) <= lines:
        return text
    kept = rows[-lines:]
    opening = rows[0].lstrip()
    return "\n".join([rows[0], *kept] if opening.startswith(("```", "~~~")) else kept)


def drawn(text: str, *, coloured: bool = True) -> RenderableType:
    """`text`, which must be `clean`, as a Rich renderable."""
    from rich.markdown import Markdown

    markdown = Markdown("", hyperlinks=False, code_theme=_CODE_THEME)
    markdown.parsed = _parser().parse(text)
    _prepare(markdown.parsed, coloured=coloured)
    return markdown


def clean(text: str) -> str:
    """`text` without terminal control characters; line ends are newlines."""
    return safe(text.replace("\r\n", "\n"))


def _prepare(tokens: Iterable[Token], *, coloured: bool) -> None:
    for token in tokens:
        if token.type == "softbreak":
            # Whoever writes lines in a chat means lines.
            token.type = "hardbreak"
        elif token.type == "fence" and not (coloured and len(token.content) <= _MOST_COLOURED):
            token.info = ""
        if token.children:
            _prepare(token.children, coloured=coloured)


def _places(text: str) -> list[tuple[int, int]]:
    """The first line of each block, and the line after its last."""
    return [
        (token.map[0], token.map[1])
        for token in _parser().parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]


def _hidden(lines: list[str]) -> list[Block]:
    """Link definitions, which Markdown does not show."""
    text = "\n".join(lines).strip("\n")
    return [Block(text=text, is_markdown=False)] if text.strip() else []


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
