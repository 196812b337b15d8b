"""`/sessions`: conversations and what can be done with them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Query, Response

from ekiden.api.texts import MOST_EVENTS
from ekiden.app.records.session_pages import find_sessions
from ekiden.app.records.sessions import chain_record, session_record, show_record
from ekiden.core.events import Event
from ekiden.runtime.deletion import delete_session
from ekiden.runtime.exporting import export_session as exported
from ekiden.server.access import Administers, Reads
from ekiden.server.answers import answer, page
from ekiden.server.models.sessions import (
    ChainModel,
    EventModel,
    EventTypeName,
    ExportModel,
    OutcomeName,
    SessionDetail,
    SessionModel,
    SessionStateName,
    SessionStatusName,
)
from ekiden.server.paging import PAGE, Cursor, Limit, Page, SessionId, cursor_as
from ekiden.server.params import User, word
from ekiden.server.problems import problems
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, Store

router = APIRouter(prefix="/sessions", tags=["sessions"])

Place: TypeAlias = Annotated[str | None, cursor_as(r"^[0-9]{1,9}$")]
_PAGE = 1000


@router.get("", response_model=Page[SessionModel])
async def list_sessions(
    desk: Reads,
    limit: Limit = PAGE,
    cursor: Cursor = None,
    status: Annotated[SessionStatusName | None, Query(description="Only those so.")] = None,
    agent: Annotated[str | None, word("Only those that this agent has.")] = None,
    user: User = None,
    outcome: Annotated[
        OutcomeName | None, Query(description="Only those whose last run ended so.")
    ] = None,
    state: Annotated[
        list[SessionStateName] | None,
        Query(max_length=5, description="Only those in this state; may be given more than once."),
    ] = None,
    text: Annotated[
        str | None,
        word("Only those with this in their title, id, user or agent, whatever the case."),
    ] = None,
) -> Response:
    """List the sessions, newest first.

    With `state` or `text`, a page that had to look at very many sessions may be short or empty:
    there is more as long as there is a `next_cursor`.
    """
    where = SessionFilter(status=status, agent=agent, user_id=user, outcome=outcome)
    found = await find_sessions(
        desk.store, where, states=state or (), text=text or "", limit=limit, cursor=cursor
    )
    return page(map(session_record, found.sessions), found.next_cursor)


@router.get("/{session_id}", response_model=SessionDetail, responses=problems(404))
async def get_session(desk: Reads, session_id: SessionId) -> Response:
    """A session with its conversation."""
    row = await desk.store.get(session_id)
    return answer(show_record(row, await desk.store.events(session_id)))


@router.delete("/{session_id}", status_code=204, responses=problems(404, 409))
async def remove_session(desk: Administers, session_id: SessionId) -> None:
    """Remove a session with everything that was said in it.

    What it asks people and agents is withdrawn, and who waits for its answer is told.
    """
    await delete_session(desk.store, session_id)


@router.get("/{session_id}/events", response_model=Page[EventModel], responses=problems(404))
async def list_session_events(
    desk: Reads,
    session_id: SessionId,
    after: Annotated[
        int, Query(ge=0, le=MOST_EVENTS, description="Only events with a higher number.")
    ] = 0,
    limit: Limit = PAGE,
    cursor: Place = None,
    types: Annotated[
        list[EventTypeName] | None,
        Query(max_length=20, description="Only these; may be given more than once."),
    ] = None,
) -> Response:
    """What happened in a session, in order."""
    await desk.store.get(session_id)
    start = max(after, _place(cursor))
    found = await _events(desk.store, session_id, start, limit + 1, frozenset(types or ()))
    shown = found[:limit]
    more = str(shown[-1].seq) if len(found) > limit else None
    return page((event.to_json() for event in shown), more)


@router.get("/{session_id}/items", response_model=Page[dict[str, Any]], responses=problems(404))
async def list_session_items(
    desk: Reads, session_id: SessionId, limit: Limit = PAGE, cursor: Place = None
) -> Response:
    """The conversation as it stands, in order, as the OpenAI Responses API has its items."""
    await desk.store.get(session_id)
    items = await Session(session_id, store=desk.store).get_items()
    start = _place(cursor)
    end = start + limit
    return page(items[start:end], str(end) if end < len(items) else None)


@router.get("/{session_id}/chain", response_model=ChainModel, responses=problems(404))
async def get_session_chain(desk: Reads, session_id: SessionId) -> Response:
    """Who handed a session to whom, and why."""
    row = await desk.store.get(session_id)
    return answer(chain_record(row, await desk.store.events(session_id)))


@router.get("/{session_id}/export", response_model=ExportModel, responses=problems(404))
async def export_session(desk: Reads, session_id: SessionId) -> Response:
    """A session with all its events, as a document that can be imported."""
    document = await exported(desk.store, session_id)
    headers = {"Content-Disposition": f'attachment; filename="{session_id}.json"'}
    # A long one takes a while to write: others want their turn meanwhile.
    return await asyncio.to_thread(lambda: answer(document, headers=headers))


async def _events(
    store: Store, session_id: str, after: int, wanted: int, types: frozenset[str]
) -> list[Event]:
    """At most `wanted` of the events above `after` that are of one of the types."""
    found: list[Event] = []
    while True:
        size = _PAGE if types else wanted
        events = await store.events(session_id, after=after, limit=size)
        found += [event for event in events if not types or event.type in types]
        if len(found) >= wanted or len(events) < size:
            return found[:wanted]
        after = events[-1].seq


def _place(cursor: str | None) -> int:
    """How far the page before went."""
    return 0 if cursor is None else int(cursor)
