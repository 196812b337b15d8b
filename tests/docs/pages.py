"""The documentation as data: pages, their fenced blocks, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<marks>`{3,})(?P<language>[^\s`]*)")
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+?) -->")
_FILE = re.compile(r"<!-- file: (?P<path>[\w./-]+) -->")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *$", re.MULTILINE)
_CODE = re.compile(r"^(`{3,}).*?^\1`*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int
    """Where its text begins in the page, from 1."""
    not_run: str | None = None
    """Why it is not run, as the comment before it says."""
    file: str | None = None
    """The file whose content it is, as the comment before it says."""
    output: str | None = None
    """Of the `text` block that directly follows."""


@dataclass(frozen=True)
class Page:
    """A Markdown file."""

    path: Path

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """Its fenced blocks, in order; an output is part of the block that makes it."""
        return list(joined(read_blocks(self.text)))

    @cached_property
    def anchors(self) -> set[str]:
        """What a link to a place in the page can name."""
        prose = re.sub(r"^```.*?^```$", "", self.text, flags=re.MULTILINE | re.DOTALL)
        return {slug(found["text"]) for found in _HEADING.finditer(prose)}

    @cached_property
    def links(self) -> list[str]:
        """The targets of its links, those in code excepted."""
        return [found["target"] for found in _LINK.finditer(_CODE.sub("", self.text))]


def pages() -> list[Page]:
    """Every page that readers are given."""
    written = [path for path in sorted(DOCS.glob("*.md")) if path.name != "python.md"]
    return [Page(path) for path in (ROOT / "README.md", ROOT / "README.zh.md", *written)]


def page(name: str) -> Page:
    """A page of `docs`."""
    return Page(DOCS / name)


def slug(heading: str) -> str:
    """The anchor that a heading gets: lower case, hyphens for spaces, no punctuation."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def read_blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page as they stand."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        found = _FENCE.match(lines[at])
        if found is None:
            at += 1
            continue
        first = at + 1
        at = next(i for i in range(first, len(lines)) if lines[i].startswith(found["marks"]))
        comment = _line_before(lines, first - 1)
        not_run, file = _NOT_RUN.fullmatch(comment), _FILE.fullmatch(comment)
        yield Block(
            language=found["language"],
            text="\n".join(lines[first:at]) + "\n",
            line=first + 1,
            not_run=not_run["reason"] if not_run else None,
            file=file["path"] if file else None,
        )
        at += 1


def joined(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks, with a `text` block given to the `python` block that it directly follows."""
    before: Block | None = None
    for block in blocks:
        if block.language == "text" and before is not None and _follows(before, block):
            yield replace(before, output=block.text)
            before = None
            continue
        if before is not None:
            yield before
        before = block
    if before is not None:
        yield before


def _follows(block: Block, next_block: Block) -> bool:
    """Whether nothing but an empty line is between the two."""
    end_of_fence = block.line + block.text.count("\n")
    return block.language == "python" and next_block.line - end_of_fence <= 3


def _line_before(lines: list[str], at: int) -> str:
    """The last line above `at` that is not empty."""
    return next((line.strip() for line in reversed(lines[:at]) if line.strip()), "")
