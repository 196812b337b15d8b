"""Pages of sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, TypeAlias

from ekiden.app.records.sessions import session_record
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import clock_time, print_table
from ekiden.core.jsonio import dumps
from ekiden.storage.base import SessionFilter, SessionPage, SessionRow, Store

ListForm: TypeAlias = Literal["table", "json", "lines"]

_PAGE = 50
_BIG_PAGE = 500


async def list_sessions(
    store: Store,
    where: SessionFilter,
    *,
    limit: int | None,
    cursor: str | None,
    form: ListForm,
) -> None:
    """Print one page; as lines without a limit, all pages."""
    if form == "lines" and limit is None:
        async for row in _all(store, where, cursor):
            emit(session_record(row))
        return
    page = await store.list(where, limit=limit or _PAGE, cursor=cursor)
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


async def _all(store: Store, where: SessionFilter, cursor: str | None) -> AsyncIterator[SessionRow]:
    while True:
        page = await store.list(where, limit=_BIG_PAGE, cursor=cursor)
        for row in page.sessions:
            yield row
        cursor = page.next_cursor
        if cursor is None:
            return


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
