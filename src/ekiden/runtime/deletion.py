"""Deleting a session with what others have of it."""

from __future__ import annotations

from contextlib import suppress

from ekiden.core.acting import acting_as
from ekiden.core.inbox_errors import InboxError
from ekiden.core.message_answers import error_json
from ekiden.runtime.cursor import Cursor, OpenQuestion
from ekiden.runtime.leases import owner_name
from ekiden.runtime.question_sessions import ANSWERS
from ekiden.runtime.withdrawing import abandon, timer_end
from ekiden.storage.base import Claim, Commit, MessageSettle, SessionPatch, SessionRow, Store

_LEASE_S = 30.0
_REASON = "the session was deleted"
_DELETED = error_json("the session that was to answer was deleted", code="ask.deleted")


async def delete_session(store: Store, session_id: str) -> None:
    """Remove the session; nobody is asked in its name, and nobody waits for it, any more.

    Its questions to people and to agents are withdrawn, sessions that worked at an answer for it
    are ended, and whoever asked it is told. Dying on the way leaves a session that can be deleted
    again. Raises `SessionNotFound`, and `SessionBusy` while somebody runs it::

        await delete_session(store, "customer-42")
    """
    await store.open()
    claim, row = await store.claim(session_id, owner=owner_name(), lease_s=_LEASE_S)
    try:
        queries = await _detached(store, claim, row)
    except BaseException:
        await store.release(claim)
        raise
    await store.delete(session_id)
    for question in queries:
        if question.session is not None:
            await abandon(store, question.session, question.id)


async def _detached(store: Store, claim: Claim, row: SessionRow) -> list[OpenQuestion]:
    """Free the session from everybody; its questions to agents, which are withdrawn."""
    cursor = Cursor.from_json(row.cursor)
    asks, cursor.asks = list(cursor.asks.values()), {}
    if not asks and ANSWERS not in row.meta and row.status == "idle":
        await store.release(claim)
        return []
    for question in asks:
        if question.kind == "inbox":
            await _withdraw_item(store, question, by=row.agent)
    queries = [question for question in asks if question.kind == "query"]
    settles = [MessageSettle(key=question.id, state="cancelled") for question in queries]
    if ANSWERS in row.meta:
        settles.append(MessageSettle(key=row.meta[ANSWERS], state="failed", answer=_DELETED))
    # Idle, so that no worker takes it between this and its end.
    patch = SessionPatch(status="idle", outcome="failed", cursor=cursor.to_json())
    await store.commit(
        claim,
        Commit(
            patch=patch,
            events=(),
            documents=[timer_end(question) for question in queries],
            settles=settles,
            wakes=[question.session for question in queries if question.session is not None],
            release=True,
        ),
    )
    return queries


async def _withdraw_item(store: Store, question: OpenQuestion, *, by: str) -> None:
    from ekiden.inbox import Inbox

    with suppress(InboxError), acting_as(""):
        await Inbox(store).cancel(question.id, by=by, reason=_REASON)
