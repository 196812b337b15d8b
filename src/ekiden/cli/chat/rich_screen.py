"""A chat at a terminal: streamed Markdown, and a line for each route, handoff and tool.

A model's text is untrusted: control characters are spelled out first, HTML and Rich markup are
shown as text, and links show their target. Text that cannot be drawn is printed unchanged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from ekiden.cli.chat.screen import (
    Cleared,
    CommandReply,
    Lines,
    Pairs,
    Quoted,
    Shape,
    Table,
    beside_line,
    event_line,
    said_by_agent,
)
from ekiden.cli.output import Id, TimeCell, narrow_table, rich_pairs, rich_table, safe
from ekiden.cli.prompts import MARK
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.segment import Segment

    from ekiden.cli.run_observer import Reported

_MOST_COLOURED = 20_000
"""How many characters of code are highlighted; lexers are slow for more, and for hostile text."""
_CODE_THEME = "ansi_dark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of Markdown, such as a paragraph or a list, or lines that Markdown would hide."""

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
            # In a chat, single line breaks are meant as such.
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


_STYLES = {
    "route": "cyan",
    "handoff": "magenta",
    "tool_call": "dim",
    "tool_confirmation": "dim",
    "task": "cyan",
}


class RichScreen:
    """`Screen` on a terminal that can move its cursor.

    `later` calls a function after some seconds; the event loop's own by default.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        markdown: bool = True,
        later: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        self._given = console
        self._markdown = markdown
        self._later = later
        self._answer: StreamedAnswer | None = None
        self._index = 0
        self._timer: Any = None
        self._speaker: str | None = None
        """The name shown above the current text."""
        self._agent: str | None = None

    @cached_property
    def _console(self) -> Console:
        """Created on first use: Rich is slow to import."""
        from rich.console import Console

        return self._given or Console(highlight=False, emoji=False, markup=False)

    def show(self, shown: Event | ModelDelta) -> None:
        if isinstance(shown, Event):
            self._event(shown)
        elif shown.kind == "text" and shown.text:
            self._piece(shown)

    def show_child(self, event: Event) -> None:
        line = beside_line(event)
        if line is not None:
            self.note(line)

    def end(self, result: Reported) -> None:
        self._finish()
        self._speaker = None

    def break_off(self) -> None:
        if self._answer is not None:
            self._finish()
            self._line("(this answer was not kept)", "dim")
        self._speaker = None

    def reply(self, reply: CommandReply) -> None:
        for shape in reply.shapes:
            self._draw(shape)

    def note(self, text: str) -> None:
        self._finish()
        self._line(text, "dim")

    def error(self, code: str, message: str) -> None:
        self._finish()
        self._line(f"error[{code}]: {message}", "red")

    def _piece(self, delta: ModelDelta) -> None:
        if self._answer is None:
            self._name(self._agent)
            self._answer = StreamedAnswer(self._console, markdown=self._markdown)
        elif delta.index != self._index:
            self._answer.feed("\n\n")
        self._index = delta.index
        self._answer.feed(delta.text)
        if self._timer is None:
            self._timer = self._call_later(self._answer.pause_s, self._draw_answer)

    def _event(self, event: Event) -> None:
        text = said_by_agent(event)
        if self._answer is not None:
            streamed = self._answer.text
            self._finish()
            if not text:
                self._line("(this answer was not kept)", "dim")
            elif streamed != text:
                self._line("(this was kept:)", "dim")
                self._say(event.agent, text)
        elif text:
            self._say(event.agent, text)
        if event.type == "agent_start":
            self._agent = event.agent
        line = event_line(event)
        if line is not None:
            self._line(line, _STYLES[event.type])
            self._speaker = None

    def _say(self, agent: str | None, text: str) -> None:
        self._name(agent)
        print_text(self._console, clean(text), markdown=self._markdown)

    def _name(self, agent: str | None) -> None:
        if agent != self._speaker and agent is not None:
            self._line(agent, "bold green")
            self._speaker = agent

    def _draw_answer(self) -> None:
        self._timer = None
        if self._answer is not None:
            self._answer.draw()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer.finish()

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        later = self._later or asyncio.get_running_loop().call_later
        return later(seconds, call)

    def _draw(self, shape: Shape) -> None:
        match shape:
            case Lines(text=text):
                self._line(text)
            case Quoted(text=text):
                self._quote(text)
            case Pairs(pairs=pairs):
                self._console.print(rich_pairs(pairs))
            case Table(rows=rows) if not rows:
                self._line(shape.empty)
            case Table(headers=headers, rows=rows, heading=heading):
                if heading:
                    self._line(heading)
                if any(isinstance(cell, Id | TimeCell) for cell in rows[0]):
                    self._line(narrow_table(headers, rows, width=self._console.width).rstrip())
                else:
                    self._console.print(rich_table(headers, rows))
            case Cleared():
                self._console.clear()

    def _line(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(safe(text), style=style))

    def _quote(self, text: str) -> None:
        from rich.text import Text

        width = max(self._console.width - len(MARK), 1)
        for row in Text(safe(text)).wrap(self._console, width):
            self._console.print(Text(MARK).append_text(row))


_SHORTEST_PAUSE_S = 0.05
_SHARE = 8
"""Drawing takes at most 1/8 of the time."""


class StreamedAnswer:
    """Draws one answer of an agent on `console`.

    Only the last block still changes: as much of it as fits on the screen is redrawn in place. It
    is wiped when it is complete, so that the final text is drawn once.
    """

    def __init__(self, console: Console, *, markdown: bool = True) -> None:
        self._console = console
        self._markdown = markdown
        self._rest = ""
        self._waiting_cr = ""
        self._live: Live | None = None
        self._printed = False
        self.text = ""
        """The whole text that was fed."""
        self.pause_s = _SHORTEST_PAUSE_S
        """How long to wait before the next `draw`, so that drawing does not use all the time."""

    def feed(self, piece: str) -> None:
        """Add a piece of the answer; the next `draw` shows it."""
        self.text += piece
        piece = self._waiting_cr + piece
        self._waiting_cr = "\r" if piece.endswith("\r") else ""
        self._rest += clean(piece.removesuffix("\r"))

    def draw(self) -> None:
        """Print finished blocks, and draw the growing one."""
        began = time.monotonic()
        if self._markdown:
            self._print(finished_part(self._rest))
        self._show(tail(self._rest, self._lines))
        self.pause_s = max(_SHORTEST_PAUSE_S, _SHARE * (time.monotonic() - began))

    def finish(self) -> None:
        """Print the rest; it is not redrawn any more."""
        self.wipe()
        self._rest += clean(self._waiting_cr)
        self._waiting_cr = ""
        self._print(len(self._rest))

    def wipe(self) -> None:
        """Take the growing block off the screen."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    @property
    def _lines(self) -> int:
        return max(self._console.size.height - 2, 1)

    def _print(self, length: int) -> None:
        text, self._rest = self._rest[:length], self._rest[length:]
        self._printed = print_text(
            self._console, text, markdown=self._markdown, goes_on=self._printed
        )

    def _show(self, text: str) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        self._live.update(self._last_lines(text), refresh=True)

    def _last_lines(self, text: str) -> RenderableType:
        """The end of the block, at most as high as the screen: more could not be wiped."""
        rows = _rows(self._console, text.strip("\n"), markdown=self._markdown, coloured=False)
        return _joined(rows[-self._lines :])


def print_text(
    console: Console, text: str, *, markdown: bool = True, goes_on: bool = False
) -> bool:
    """Print `text`, which must be `clean`, with an empty line between blocks.

    `goes_on`: there are blocks above it. Returns whether there are blocks now.
    """
    for block in blocks(text) if markdown else _plain(text):
        rows = _rows(console, block.text, markdown=block.is_markdown)
        while rows and _is_empty(rows[0]):
            del rows[0]
        while rows and _is_empty(rows[-1]):
            del rows[-1]
        if not rows:
            continue
        if goes_on and markdown:
            console.print()
        console.print(_joined(rows))
        goes_on = True
    return goes_on


def _plain(text: str) -> list[Block]:
    return [Block(text=text.strip("\n"), is_markdown=False)]


def _is_empty(row: list[Segment]) -> bool:
    return not "".join(part.text for part in row).strip()


def _rows(
    console: Console, text: str, *, markdown: bool, coloured: bool = True
) -> list[list[Segment]]:
    """`text` as lines of the screen; an error of drawing happens before anything is shown."""
    from rich.text import Text

    options = console.options.update(height=None)
    if markdown:
        # The text is untrusted, and a library draws it: if that fails, show the plain text.
        with suppress(Exception):
            return console.render_lines(drawn(text, coloured=coloured), options, pad=False)
    return console.render_lines(Text(text), options, pad=False)


def _joined(rows: list[list[Segment]]) -> RenderableType:
    from rich.segment import Segment, Segments

    return Segments([part for row in rows for part in (*row, Segment.line())])
