"""The questions to people that a session waits for: what, and how to answer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from ekiden.cli.terminal.output import note
from ekiden.cli.terminal.transcript import shorten
from ekiden.core.questions import InboxItem
from ekiden.tools.output import spelled_out

_MOST = 10
_LONGEST = 200


def question_record(item: InboxItem) -> dict[str, Any]:
    """A question for programs; `ekiden inbox show` shows the rest."""
    return {
        "id": item.id,
        "kind": item.kind,
        "from_agent": item.from_agent,
        "role": item.role,
        "subject": item.subject,
        "options": list(item.options),
        "deadline_us": item.deadline_us,
        "session_id": item.session_id,
    }


def tell_questions(questions: Sequence[InboxItem], store_words: Sequence[str] = ()) -> None:
    """Print on standard error the questions, and the commands that answer them.

    `store_words` name the store in these commands.
    """
    for item in questions[:_MOST]:
        note(question_line(item))
        note(f"  answer with: {answer_command(item, store_words)}")
    if len(questions) > _MOST:
        rest = shlex.join(["ekiden", "inbox", "list", *store_words])
        note(f"and {len(questions) - _MOST} more: {rest}")


def question_line(item: InboxItem, *, with_role: bool = True) -> str:
    """Who asks whom what; the subject may come from a model."""
    subject = shorten(" ".join(spelled_out(item.subject).split()), _LONGEST)
    asks = f" asks {item.role}" if with_role else ""
    return f"{spelled_out(item.from_agent)}{asks}: {subject}"


def answer_command(item: InboxItem, store_words: Sequence[str] = ()) -> str:
    """The command that answers in another terminal."""
    command = shlex.join(["ekiden", "inbox", "answer", item.id])
    more = f" {shlex.join(store_words)}" if store_words else ""
    return f"{command} {answer_words(item)}{more}"


def answer_words(item: InboxItem, *, in_chat: bool = False) -> str:
    """The words after the id: the choices, or a placeholder for text."""
    if not item.options:
        return "TEXT"
    choices = "|".join(shlex.quote(spelled_out(option)) for option in item.options)
    if item.kind != "handoff":
        return choices
    return f"{choices} TEXT" if in_chat else f"{choices} --text TEXT"
