"""Pages of sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ekiden.app.records.session_pages import find_sessions
from ekiden.app.records.session_states import SessionState
from ekiden.app.records.sessions import session_record
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import clock_time, print_table
from ekiden.core.jsonio import dumps
from ekiden.storage.base import SessionFilter, SessionPage, SessionRow, Store

ListForm: TypeAlias = Literal["table", "json", "lines"]

_PAGE = 50
_BIG_PAGE = 500


@dataclass(frozen=True, slots=True)
class Found:
    """The sessions of a store that are looked for."""

    store: Store
    where: SessionFilter
    states: Collection[SessionState] = ()
    text: str = ""

    async def page(self, *, limit: int, cursor: str | None) -> SessionPage:
        """So many of them, unless there are fewer."""
        rows: list[SessionRow] = []
        while True:
            page = await find_sessions(
                self.store,
                self.where,
                states=self.states,
                text=self.text,
                limit=limit - len(rows),
                cursor=cursor,
            )
            rows += page.sessions
            cursor = page.next_cursor
            if cursor is None or len(rows) == limit:
                return SessionPage(sessions=rows, next_cursor=cursor)

    async def all(self, cursor: str | None) -> AsyncIterator[SessionRow]:
        """All of them, page by page."""
        while True:
            page = await self.page(limit=_BIG_PAGE, cursor=cursor)
            for row in page.sessions:
                yield row
            cursor = page.next_cursor
            if cursor is None:
                return


async def list_sessions(
    found: Found, *, limit: int | None, cursor: str | None, form: ListForm
) -> None:
    """Print one page; as lines without a limit, all pages."""
    if form == "lines" and limit is None:
        async for row in found.all(cursor):
            emit(session_record(row))
        return
    page = await found.page(limit=limit or _PAGE, cursor=cursor)
    match form:
        case "json":
            emit([session_record(row) for row in page.sessions])
        case "lines":
            for row in page.sessions:
                emit(session_record(row))
        case "table":
            print_sessions(page)
    if page.next_cursor is not None and form == "table":
        note(f"more: --cursor {page.next_cursor}")
    elif page.next_cursor is not None:
        note(dumps({"next_cursor": page.next_cursor}))


def print_sessions(page: SessionPage) -> None:
    """One page as a table."""
    if not page.sessions:
        say("no sessions")
        return
    print_table(
        ("session", "agent", "status", "outcome", "events", "created", "title"),
        [
            (
                row.id,
                row.agent,
                row.status,
                row.outcome or "",
                str(row.seq),
                clock_time(row.created_at_us / 1e6),
                str(row.meta.get("title", "")),
            )
            for row in page.sessions
        ],
    )
