"""Handoffs that somebody asked for and that nobody took up yet."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ekiden.core.errors import SessionNotFound, StaleDocument
from ekiden.handoff.history_query import EVERYTHING, HandoffQuery
from ekiden.handoff.records import HandoffRecord, Move
from ekiden.runtime.leases import REQUESTS
from ekiden.runtime.request_documents import (
    Asked,
    asked_in,
    change_request,
    removal_of,
    session_of,
)
from ekiden.storage.base import Document, Store

_A_DAY_US = 86_400_000_000
_MOST_PAGES = 10
"""How many pages of requests are looked through for dead ones."""


async def open_requests(store: Store, query: HandoffQuery = EVERYTHING) -> list[HandoffRecord]:
    """The handoffs that wait for whoever runs their session, in the order of being asked for.

    Each has the id of its request, with which it can be withdrawn, and the status ``initiated``.
    """
    where = query.event_filter()
    found = []
    async for session_id, asked in _requests(store, query.session_id):
        if where.since_us is not None and asked.asked_us < where.since_us:
            continue
        if where.until_us is not None and asked.asked_us >= where.until_us:
            continue
        try:
            row = await store.get(session_id)
        except SessionNotFound:
            continue
        record = _record(session_id, row.agent, asked)
        if query.matches(record) and query.matches_session(row):
            found.append(record)
    return sorted(found, key=lambda record: record.started_at)


async def find_request(store: Store, request_id: str) -> Document | None:
    """The request of this id, if nobody answered it yet."""
    after = ""
    while documents := await store.list_documents(REQUESTS, after=after):
        for document in documents:
            if asked_in(document).id == request_id:
                return document
        after = documents[-1].key
    return None


async def sweep_requests(store: Store, *, now_us: int) -> None:
    """Remove requests that nobody will answer: those of a day ago, and of sessions that are gone.

    Whoever leaves a request does this, so there are never many.
    """
    after = ""
    for _ in range(_MOST_PAGES):
        documents = await store.list_documents(REQUESTS, after=after)
        if not documents:
            return
        for document in documents:
            if await _is_dead(store, document, now_us):
                try:
                    await change_request(store, removal_of(document))
                except StaleDocument:  # somebody has just seen to it
                    continue
        after = documents[-1].key


async def _is_dead(store: Store, document: Document, now_us: int) -> bool:
    asked = asked_in(document)
    late_us = now_us - asked.asked_us - asked.wait_s * 1e6
    if late_us <= 0:
        return False
    if late_us > _A_DAY_US:
        return True
    try:
        await store.get(session_of(document))
    except SessionNotFound:
        return True
    return False


async def _requests(store: Store, session_id: str | None) -> AsyncIterator[tuple[str, Asked]]:
    after, prefix = "", "" if session_id is None else f"{session_id}/"
    while documents := await store.list_documents(REQUESTS, prefix=prefix, after=after):
        for document in documents:
            of_session, asked = session_of(document), asked_in(document)
            if asked.state == "open" and asked.cancel is None and session_id in (None, of_session):
                yield of_session, asked
        after = documents[-1].key


def _record(session_id: str, source: str, asked: Asked) -> HandoffRecord:
    return HandoffRecord(
        id=asked.id,
        session_id=session_id,
        source=source,
        target=asked.to,
        status="initiated",
        moves=(Move(status="initiated", at_us=asked.asked_us, seq=0),),
        by=asked.by,
        policy=asked.policy or "graceful",
        reason=asked.reason,
        request=asked.id,
    )
