"""An answer that appears while it is made: finished blocks stay, the last one is redrawn."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ekiden.cli.chat.markdown import Block, blocks, clean, drawn, finished_part, tail

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.segment import Segment

_SHORTEST_PAUSE_S = 0.05
_SHARE = 8
"""Drawing takes at most one part in so many of the time."""


class Streamed:
    """Draws one answer of an agent on `console`.

    The block that still grows is drawn below all others, as much of it as fits on the screen, and
    wiped when it is done, so that what stays on the screen is drawn once.
    """

    def __init__(self, console: Console, *, markdown: bool = True) -> None:
        self._console = console
        self._markdown = markdown
        self._rest = ""
        self._waiting_cr = ""
        self._live: Live | None = None
        self._printed = False
        self.text = ""
        """Everything that was fed, as it came."""
        self.pause_s = _SHORTEST_PAUSE_S
        """How long to wait before the next `draw`, so that drawing does not take all the time."""

    def feed(self, piece: str) -> None:
        """Take a piece; it is seen with the next `draw`."""
        self.text += piece
        piece = self._waiting_cr + piece
        self._waiting_cr = "\r" if piece.endswith("\r") else ""
        self._rest += clean(piece.removesuffix("\r"))

    def draw(self) -> None:
        """Print blocks that are finished, and draw the one that is not."""
        began = time.monotonic()
        if self._markdown:
            self._print(finished_part(self._rest))
        self._show(tail(self._rest, self._lines))
        self.pause_s = max(_SHORTEST_PAUSE_S, _SHARE * (time.monotonic() - began))

    def finish(self) -> None:
        """Print what is left; nothing of it is redrawn any more."""
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
        """The end of the block, at most as high as the screen: more could not be wiped again."""
        rows = _rows(self._console, text.strip("\n"), markdown=self._markdown, coloured=False)
        return _joined(rows[-self._lines :])


def print_text(
    console: Console, text: str, *, markdown: bool = True, goes_on: bool = False
) -> bool:
    """Print `text`, which must be `clean`, with an empty line between blocks.

    `goes_on`: there are blocks above it. Gives whether there are now.
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
    """The lines of the screen that `text` takes, all drawn before any is shown."""
    from rich.text import Text

    options = console.options.update(height=None)
    if markdown:
        # Strangers write the text, and others the code that draws it.
        with suppress(Exception):
            return console.render_lines(drawn(text, coloured=coloured), options, pad=False)
    return console.render_lines(Text(text), options, pad=False)


def _joined(rows: list[list[Segment]]) -> RenderableType:
    from rich.segment import Segment, Segments

    return Segments([part for row in rows for part in (*row, Segment.line())])
