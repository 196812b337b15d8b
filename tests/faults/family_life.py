"""Taking a session, and those that were opened because of it, to their end."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Team
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, SessionRow, Store

CHOICES = {"approval": "yes", "confirmation": "approve"}
"""What people say."""
_MOST = 1000


async def relatives(store: Store, session_id: str) -> list[SessionRow]:
    """The session and all that were opened because of it."""
    page = await store.list(SessionFilter(), limit=_MOST)
    return [
        row
        for row in page.sessions
        if row.id == session_id or row.meta.get("correlation_id") == session_id
    ]


async def open_items(store: Store, session_id: str) -> list[InboxItem]:
    """What people are asked because of the session."""
    family = {row.id for row in await relatives(store, session_id)}
    items = (await Inbox(store).list(limit=_MOST)).items
    return [item for item in items if item.session_id in family]


async def decide(store: Store, session_id: str, *, by: str = "anna") -> int:
    """Be the person who says yes to everything; how much that was."""
    items = await open_items(store, session_id)
    for item in items:
        await Inbox(store).answer(item.id, choice=CHOICES[item.kind], by=by)
    return len(items)


async def carry_on_family(
    team: Team, text: str, session: Session, options: dict[str, Any], *, decides: bool = True
) -> None:
    """Take all of them to their end from wherever they stand; without `decides` as far as that is
    possible without people."""
    store = session.store
    if not await session.events():
        await Runner.run(team, text, session=session, **options)
    elif not decides:
        await Runner.resume(team, session, **options)
    while decides and (row := await session.row()).outcome in (None, "waiting"):
        if row.outcome == "waiting":
            await decide(store, row.id)
        await Runner.resume(team, session, **options)
    for row in await relatives(store, session.session_id):
        if row.status == "ready" and row.id != session.session_id:
            await Runner.resume(team, Session(row.id, store=store), **options)
