"""A chat at a terminal: answers drawn as they come, a line at each route, handoff and tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ekiden.cli.approving import MARK
from ekiden.cli.chat.lines import beside_line, event_line, said_by_agent
from ekiden.cli.chat.markdown import clean
from ekiden.cli.chat.screen import Cleared, Lines, Pairs, Quoted, Reply, Shape, Table
from ekiden.cli.chat.streaming import Streamed, print_text
from ekiden.cli.output import safe
from ekiden.cli.tables import rich_pairs, rich_table
from ekiden.core.events import Event
from ekiden.core.model import ModelDelta

if TYPE_CHECKING:
    from rich.console import Console

    from ekiden.cli.onlooker import Reported

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
        self._answer: Streamed | None = None
        self._index = 0
        self._timer: Any = None
        self._speaker: str | None = None
        """Whose name stands above what is being said."""
        self._agent: str | None = None

    @cached_property
    def _console(self) -> Console:
        """Made when something is shown first: Rich takes long to load."""
        from rich.console import Console

        return self._given or Console(highlight=False, emoji=False, markup=False)

    def show(self, shown: Event | ModelDelta) -> None:
        if isinstance(shown, Event):
            self._event(shown)
        elif shown.kind == "text" and shown.text:
            self._piece(shown)

    def beside(self, event: Event) -> None:
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

    def reply(self, reply: Reply) -> None:
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
            self._answer = Streamed(self._console, markdown=self._markdown)
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
                self._line("(this is what was kept:)", "dim")
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
