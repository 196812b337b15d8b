"""The output of a chat when a turn waits for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.cli.chat.screens.screen import CommandReply, Lines, Quoted, Shape
from ekiden.cli.views.questions import answer_words, question_line, question_record
from ekiden.core.questions import InboxItem
from ekiden.tools.output import spelled_out


def waiting_reply(session_id: str, questions: Sequence[InboxItem], reason: str) -> CommandReply:
    """Tells that the turn waits, what for, and how to answer."""
    shapes: list[Shape] = []
    for item in questions:
        shapes.append(Lines(text=question_line(item)))
        if item.body:
            shapes.append(Quoted(text=spelled_out(item.body)))
        shapes.append(Lines(text=f"/inbox answer {item.id} {answer_words(item, in_chat=True)}"))
    text = f"waiting for {reason}; an answer, from here or another terminal, continues it"
    shapes.append(Lines(text=text))
    record = {
        "session_id": session_id,
        "reason": reason,
        "waiting_for": [question_record(item) for item in questions],
        "text": text,
    }
    return CommandReply(type="waiting", record=record, shapes=shapes, is_remark=True)
