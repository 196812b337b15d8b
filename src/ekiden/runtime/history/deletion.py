"""Deleting a session with what others have of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ekiden.core.conversation.messages import error_json
from ekiden.core.current_agent import acting_as
from ekiden.core.errors import SessionBusy, SessionNotFound
from ekiden.core.errors.messages import InboxError
from ekiden.core.events import Event
from ekiden.core.values import owner_name
from ekiden.runtime.questions.cancel_question import is_left, timer_end
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.budget import shared_budget_removals
from ekiden.runtime.state.cursor import Cursor, OpenQuestion
from ekiden.sessions.search import delete_with_texts
from ekiden.storage.base import (
    Claim,
    Commit,
    MessageFilter,
    MessageSettle,
    SessionPatch,
    SessionRow,
    Store,
)

ASKED_IN = "asked_in"
"""In a session's meta: the session whose agent asked or told it something."""
_LEASE_S = 30.0
_PAGE = 500
_REASON = "the session was deleted"
_DELETED = error_json("the session that was to answer was deleted", code="ask.deleted")


async def delete_session(
    store: Store, session_id: str, *, only_if: Callable[[SessionRow], bool] | None = None
) -> bool:
    """Delete the session, including its questions and waits.

    Its questions to people and agents are withdrawn. An agent that waits for the answer of the
    session is informed. Searches no longer find the session. Sessions that answer its queries are
    also deleted, unless they are running. A session that only got a notification is deleted if it
    is finished. `only_if` is called while no other process can change the session. If `only_if`
    returns false, nothing is deleted, and the result is `False`. After a crash you can delete the
    session again. Raises `SessionNotFound`, and `SessionBusy` while it is running::

        await delete_session(store, "customer-42")
    """
    return bool(await remove_session(store, session_id, only_if=only_if))


async def remove_session(
    store: Store, session_id: str, *, only_if: Callable[[SessionRow], bool] | None = None
) -> list[str]:
    """As `delete_session`; gives the ids of all sessions that were removed, none if `only_if` says
    no, which is asked of those that go with it, too."""
    await store.open()
    claim, row = await store.claim(session_id, owner=owner_name(), lease_s=_LEASE_S)
    try:
        if only_if is not None and not only_if(row):
            return []
        waited_for = await _detached(store, claim, row)
        removed: list[str] = []
        for asked in _asked_sessions(await store.events(row.id)):
            is_needless = asked in waited_for
            with suppress(SessionBusy, SessionNotFound):
                if is_needless or await _goes_along(store, asked, row.id, only_if):
                    why = None if is_needless else only_if
                    removed += await remove_session(store, asked, only_if=why)
    finally:
        await store.release(claim)
    await _forget_messages(store, row.id)
    await delete_with_texts(store, row)
    return [*removed, row.id]


async def _detached(store: Store, claim: Claim, row: SessionRow) -> set[str]:
    """Free the session from everybody; the sessions that were to answer it, which are told."""
    cursor = Cursor.from_json(row.cursor)
    asks, cursor.questions.open = list(cursor.questions.open.values()), {}
    shared_budgets = await shared_budget_removals(
        store, cursor.budget.shared_budget, cursor.budget.levels
    )
    if not asks and not shared_budgets and ANSWERS not in row.meta and row.status == "idle":
        return set()
    for question in asks:
        if question.kind == "inbox":
            await withdraw_item(store, question, by=row.agent, reason=_REASON)
    queries = [question for question in asks if question.kind == "query"]
    settles = [MessageSettle(key=question.id, state="cancelled") for question in queries]
    if ANSWERS in row.meta:
        settles.append(MessageSettle(key=row.meta[ANSWERS], state="failed", answer=_DELETED))
    cursor.budget.shared_budget, cursor.budget.levels = None, []
    sessions = [question.session for question in queries if question.session is not None]
    # Idle, so that no worker takes it between this and its end.
    await store.commit(
        claim,
        Commit(
            patch=SessionPatch(status="idle", outcome="failed", cursor=cursor.to_json()),
            events=(),
            documents=[*(timer_end(question) for question in queries), *shared_budgets],
            settles=settles,
            wakes=sessions,
        ),
    )
    return set(sessions)


async def _forget_messages(store: Store, session_id: str) -> None:
    """Remove what the session asked others, with the answers."""
    where = MessageFilter(session_id=session_id)
    while page := await store.find_messages(where, limit=_PAGE):
        keys = [each.key for each in page if each.key is not None]
        if not keys:
            return
        await store.settle_messages(
            [MessageSettle(key=key, state="cancelled", forget=True) for key in keys]
        )


def _asked_sessions(events: Iterable[Event]) -> list[str]:
    """The sessions that were opened for what the events asked and told others."""
    found: dict[str, None] = {}
    for event in events:
        for kind in ("asks", "tells"):
            said = (event.details or {}).get(kind)
            session = said.get("session") if isinstance(said, Mapping) else None
            if isinstance(session, str):
                found[session] = None
    return list(found)


async def _goes_along(
    store: Store, session_id: str, asked_in: str, only_if: Callable[[SessionRow], bool] | None
) -> bool:
    """Whether the session is deleted along with that one: it was opened by it, not by the original
    of a copy, and is over, or answers a question that is not needed any more; or `only_if`
    decides."""
    row = await store.get(session_id)
    is_over = row.status == "idle" and not is_left(row)
    return row.meta.get(ASKED_IN) == asked_in and (
        is_over or ANSWERS in row.meta or only_if is not None
    )


async def withdraw_item(store: Store, question: OpenQuestion, *, by: str, reason: str) -> None:
    """People are not asked any more what the session asked them."""
    from ekiden.inbox import Inbox

    with suppress(InboxError), acting_as(""):
        await Inbox(store).cancel(question.id, by=by, reason=reason)
