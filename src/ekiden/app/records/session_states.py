"""How sessions stand, in the words that people use; told from their rows alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from ekiden.app.records.runs import run_id_of
from ekiden.runtime.cursor import OpenQuestion
from ekiden.runtime.pausing import PAUSES
from ekiden.storage.base import SessionRow

SessionState: TypeAlias = Literal["working", "waiting_agent", "waiting_person", "failed", "idle"]
"""`working`: somebody works on it, or will; `failed`: its last run failed, or ran out of its
budget; `idle`: nothing to do until somebody writes."""

_PERSON: Final = "person"
_FAILED: Final = frozenset({"failed", "out_of_budget"})


def standing_fields(row: SessionRow) -> dict[str, Any]:
    """What is told of a session beside its row: state, title, last run and whom it waits for."""
    title = row.meta.get("title")
    number = row.cursor.get("r", 0)
    return {
        "state": state_of(row),
        "title": None if title is None else str(title),
        "run_id": run_id_of(row.id, number) if number else None,
        "waiting_for": waiting_for(row),
    }


def state_of(row: SessionRow) -> SessionState:
    """How the session stands; it waits for those that it asked itself, not for those they ask."""
    if row.status == "ready" or (row.owner is not None and row.outcome is None):
        return "working"
    if row.status == "idle":
        return "failed" if row.outcome in _FAILED else "idle"
    questions = _questions(row)
    if questions and all(_is_pause(each) for each in questions):
        return "working"  # It goes on by itself.
    names = _names(questions)
    return "waiting_person" if not names or any(map(_is_person, names)) else "waiting_agent"


def waiting_for(row: SessionRow) -> list[str]:
    """The agents that a waiting session asked, and people as ``person:ROLE``; empty for others."""
    if row.status != "waiting":
        return []
    questions = _questions(row)
    return _names(questions) if questions else [_PERSON]


def _questions(row: SessionRow) -> list[OpenQuestion]:
    return [OpenQuestion(*each) for each in row.cursor.get("as", {}).values()]


def _names(questions: Iterable[OpenQuestion]) -> list[str]:
    names = [
        f"{_PERSON}:{each.who}" if each.kind == "inbox" else each.who
        for each in questions
        if not _is_pause(each)
    ]
    return list(dict.fromkeys(names))


def _is_pause(question: OpenQuestion) -> bool:
    return question.kind == "query" and question.who == PAUSES and question.session is None


def _is_person(name: str) -> bool:
    return name == _PERSON or name.startswith(f"{_PERSON}:")
