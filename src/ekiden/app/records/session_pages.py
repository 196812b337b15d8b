"""Pages of sessions, also by what the store cannot look for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from ekiden.app.records.session_states import SessionState, state_of
from ekiden.core.folding import alike
from ekiden.storage.base import SessionFilter, SessionPage, SessionRow, SessionStatus, Store

_READ: Final = 500
"""Sessions that are read at once, at most."""
_LEAST_READ: Final = 50
MOST_LOOKED_AT: Final = 20_000
"""Sessions that one page looks at; where it ends then, the next goes on."""


async def find_sessions(
    store: Store,
    where: SessionFilter,
    *,
    states: Collection[SessionState] = (),
    text: str = "",
    limit: int,
    cursor: str | None = None,
) -> SessionPage:
    """One page of the sessions in one of `states` that `text` finds, newest first.

    `text` stands in the title, the session's id, its user's or the agent's name, whatever the case.
    No states and no text do not restrict. A page that looked at very many sessions may be short,
    or empty, although another follows.
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
    """The status that all sessions in these states have; `None` if it is not the same one."""
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
    """Those that fit of the next `size` sessions, at most `room`, and the page they are from.

    Only the end of a page has a cursor. So where there are too many, it is read again, shorter.
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
