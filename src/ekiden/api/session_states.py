"""The states of sessions as people see them, and pages of sessions by state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from ekiden.core.text.keywords import alike
from ekiden.runtime.questions.questions import PAUSES
from ekiden.runtime.state.cursor import OpenQuestion, open_questions
from ekiden.storage.base import SessionFilter, SessionPage, SessionRow, SessionStatus, Store

SessionState: TypeAlias = Literal["working", "waiting_agent", "waiting_person", "failed", "idle"]
"""`working`: a process works on it, or will; `failed`: its last run failed, or ran out of budget;
`idle`: nothing to do until the next message."""

_PERSON: Final = "person"
_FAILED: Final = frozenset({"failed", "out_of_budget"})
_READ: Final = 500
"""How many sessions are read at once, at most."""
_LEAST_READ: Final = 50
MOST_LOOKED_AT: Final = 20_000
"""How many sessions one page scans; the next page continues there."""


def state_of(row: SessionRow) -> SessionState:
    """The session's state; it waits only for those that it asked itself."""
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
    return list(open_questions(row).values())


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


async def find_sessions(
    store: Store,
    where: SessionFilter,
    *,
    states: Collection[SessionState] = (),
    text: str = "",
    limit: int,
    cursor: str | None = None,
) -> SessionPage:
    """One page of the sessions in one of `states` that match `text`, newest first.

    `text` is searched in the title, the session's id, its user and the agent's name; case does not
    matter. Without states or text there is no filter. A page that scanned very many sessions may be
    short, or empty, although another follows.
    """
    wanted = alike(text.strip())
    if not states and not wanted:
        return await store.list(where, limit=limit, cursor=cursor)
    status = _status_of(states)
    if status is not None:
        if where.status not in (None, status):
            return SessionPage(sessions=(), next_cursor=None)
        where = replace(where, status=status)

    def fits(row: SessionRow) -> bool:
        return (not states or state_of(row) in states) and (not wanted or _says(row, wanted))

    found: list[SessionRow] = []
    looked_at = 0
    size = max(4 * limit, _LEAST_READ)
    while True:
        size = min(size, _READ)
        room = limit - len(found)
        rows, page = await _read(store, where, fits, size=size, room=room, cursor=cursor)
        size *= 2
        found += rows
        looked_at += len(page.sessions)
        cursor = page.next_cursor
        if cursor is None or len(found) == limit or looked_at >= MOST_LOOKED_AT:
            return SessionPage(sessions=found, next_cursor=cursor)


def _status_of(states: Collection[SessionState]) -> SessionStatus | None:
    """The status that all sessions in these states have; `None` if they differ."""
    if states and all(state.startswith("waiting_") for state in states):
        return "waiting"
    return "idle" if states and all(state in ("failed", "idle") for state in states) else None


async def _read(
    store: Store,
    where: SessionFilter,
    fits: Callable[[SessionRow], bool],
    *,
    size: int,
    room: int,
    cursor: str | None,
) -> tuple[list[SessionRow], SessionPage]:
    """The matches among the next `size` sessions, at most `room`, and their page.

    Only the end of a page has a cursor. So with too many matches, a shorter page is read.
    """
    while True:
        page = await store.list(where, limit=size, cursor=cursor)
        places = [place for place, row in enumerate(page.sessions) if fits(row)]
        if len(places) <= room:
            return [page.sessions[place] for place in places], page
        size = places[room - 1] + 1


def _says(row: SessionRow, wanted: str) -> bool:
    said = (row.meta.get("title"), row.id, row.user_id, row.agent)
    return any(wanted in alike(str(each)) for each in said if each is not None)
