"""A chat without drawing: answers on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ekiden.cli.approval_prompt import marked
from ekiden.cli.chat.screens.lines import beside_line, event_line, said_by_agent
from ekiden.cli.chat.screens.screen import Cleared, CommandReply, Lines, Pairs, Quoted, Shape, Table
from ekiden.cli.output import complain, note, safe, say
from ekiden.cli.tables import plain_pairs, plain_table
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event

if TYPE_CHECKING:
    from ekiden.cli.run.observer import Reported


class PlainScreen:
    """`Screen` for pipes and for terminals that can only print.

    With `stream` answers appear piece by piece. Without it they appear when complete, so that
    nothing is printed that is not kept.
    """

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._streamed: list[str] = []

    def show(self, shown: Event | ModelDelta) -> None:
        if isinstance(shown, Event):
            self._event(shown)
        elif self._stream and shown.kind == "text":
            self._streamed.append(shown.text)
            sys.stdout.write(safe(shown.text))
            sys.stdout.flush()

    def _event(self, event: Event) -> None:
        streamed, text = "".join(self._streamed), said_by_agent(event)
        if streamed:
            self._streamed.clear()
            say()
        if text and text != streamed:
            say(text)
        line = event_line(event)
        if line is not None:
            note(line)

    def beside(self, event: Event) -> None:
        line = beside_line(event)
        if line is not None:
            note(line)

    def end(self, result: Reported) -> None:
        """The answer is already printed."""

    def break_off(self) -> None:
        if self._streamed:
            self._streamed.clear()
            say()

    def reply(self, reply: CommandReply) -> None:
        stream = sys.stderr if reply.is_remark else sys.stdout
        for shape in reply.shapes:
            stream.write(drawn_plain(shape))
        stream.flush()

    def note(self, text: str) -> None:
        note(text)

    def error(self, code: str, message: str) -> None:
        complain(code, message, as_json=False)


def drawn_plain(shape: Shape) -> str:
    """A shape as text that needs no terminal."""
    match shape:
        case Lines(text=text):
            return f"{safe(text)}\n"
        case Quoted(text=text):
            return f"{marked(safe(text))}\n"
        case Pairs(pairs=pairs):
            return plain_pairs(pairs)
        case Table(rows=rows) if not rows:
            return f"{safe(shape.empty)}\n" if shape.empty else ""
        case Table(headers=headers, rows=rows, heading=heading):
            above = f"{safe(heading)}\n" if heading else ""
            return above + plain_table(headers, rows)
        case Cleared():
            return ""
