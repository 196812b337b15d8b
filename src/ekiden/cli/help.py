"""Help pages: two columns, lines that fit the terminal, and an example on each page."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ekiden.cli.examples import EXAMPLES

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_WIDEST: Final = 100
_COLUMN: Final = 26
"""The column where texts begin."""


class HelpPage:
    """Prints the parts of a help page for the command in `words`."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._words = words

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """The first line."""
        text = " ".join(("Usage:", *_plain(usage).removeprefix("Usage:").split()))
        _print(console, [*_wrapped(text, indent=len("Usage: ")), ""])

    def render_description(self, console: Console, options: ConsoleOptions, told: Any) -> None:
        """What the command does, and an example."""
        lines = list(paragraphs(_plain(told)))
        example = EXAMPLES.get(" ".join(self._words[:2])) or EXAMPLES.get(" ".join(self._words[:1]))
        if example is not None:
            lines += ["Example:" if "\n" not in example else "Examples:", ""]
            lines += [*(f"    {line}" for line in example.split("\n")), ""]
        _print(console, lines)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Arguments, options or commands."""
        if not panel.entries:
            return
        lines = [f"{_plain(panel.title)}:"]
        for entry in panel.entries:
            lines += described(_names(entry), _text(entry))
        _print(console, [*lines, ""])


def described(name: str, text: str) -> list[str]:
    """A name with its text next to it, or below it if the name is long."""
    head = f"  {name}"
    lines = _wrapped(" " * _COLUMN + text, indent=_COLUMN)
    if len(head) <= _COLUMN - 2:
        return [head + lines[0][len(head) :], *lines[1:]]
    return [head, *lines]


def paragraphs(text: str) -> Iterable[str]:
    """A text as filled paragraphs, each with an empty line below; indented parts stay unchanged."""
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        yield from part.split("\n") if part.startswith("    ") else _wrapped(" ".join(part.split()))
        yield ""


def _names(entry: HelpEntry) -> str:
    """The name to show; an older one is left out, a short one stays."""
    if entry.positional_label:
        return entry.positional_label
    long = (*entry.positive_names[:1], *entry.negative_names[:1])
    label = ", ".join((*long, *entry.positive_shorts))
    return f"{label} {entry.metavar}" if entry.metavar else label


def _text(entry: HelpEntry) -> str:
    parts = [" ".join(_plain(entry.description).split())]
    if entry.choices:
        parts.append(f"[choices: {', '.join(entry.choices)}]")
    if entry.env_var:
        parts.append(f"[env var: {', '.join(entry.env_var)}]")
    if entry.default is not None:
        parts.append(f"[default: {entry.default}]")
    if entry.required:
        parts.append("[required]")
    return " ".join(parts)


def _wrapped(text: str, *, indent: int = 0) -> list[str]:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    return textwrap.wrap(
        text,
        max(width, 2 * _COLUMN),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _plain(told: Any) -> str:
    text = getattr(told, "primary_renderable", told)
    return str(getattr(text, "plain", text) or "").strip("\n")


def _print(console: Console, lines: Iterable[str]) -> None:
    console.print("\n".join(lines), highlight=False, markup=False, emoji=False, soft_wrap=True)
