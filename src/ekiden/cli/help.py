"""Help pages: two columns, lines that fit the terminal, and an example on each page."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ekiden.cli.examples import EXAMPLES, FIELDS

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
        text = " ".join(("Usage:", *plain(usage).removeprefix("Usage:").split()))
        _print(console, [*_wrapped(text, indent=len("Usage: ")), ""])

    def render_description(self, console: Console, options: ConsoleOptions, told: Any) -> None:
        """What the command does, and an example."""
        lines = list(paragraphs(plain(told)))
        example = EXAMPLES.get(" ".join(self._words[:2])) or EXAMPLES.get(" ".join(self._words[:1]))
        if example is not None:
            lines += ["Example:" if "\n" not in example else "Examples:", ""]
            lines += [*(f"    {line}" for line in example.split("\n")), ""]
        _print(console, lines)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Arguments, options or commands."""
        if not panel.entries:
            return
        lines = [f"{plain(panel.title)}:"]
        fields = FIELDS.get(" ".join(self._words[:2])) or FIELDS.get(" ".join(self._words[:1]))
        for entry in panel.entries:
            lines += described(shown_name(entry), shown_text(entry, fields))
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


def shown_name(entry: HelpEntry) -> str:
    """The name to show; an older one is left out, a short one stays."""
    if entry.positional_label:
        return entry.positional_label
    long = (*entry.positive_names[:1], *entry.negative_names[:1])
    label = ", ".join((*long, *entry.positive_shorts))
    return f"{label} {entry.metavar}" if entry.metavar else label


def shown_text(entry: HelpEntry, fields: str | None = None) -> str:
    """What an option does, its values, and the `fields` that `--json` prints."""
    parts = [" ".join(plain(entry.description).split())]
    if fields is not None and "--json" in entry.positive_names:
        parts = [f"{parts[0].removesuffix('.')}: {fields}."]
    if entry.choices:
        parts.append(f"[choices: {', '.join(entry.choices)}]")
    if entry.env_var:
        parts.append(f"[env var: {', '.join(entry.env_var)}]")
    if entry.default not in (None, "()", "False"):
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


def plain(told: Any) -> str:
    """A part of a help page as text."""
    text = getattr(told, "primary_renderable", told)
    return str(getattr(text, "plain", text) or "").strip("\n")


def _print(console: Console, lines: Iterable[str]) -> None:
    console.print("\n".join(lines), highlight=False, markup=False, emoji=False, soft_wrap=True)
