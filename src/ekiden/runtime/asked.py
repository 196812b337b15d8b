"""Handoffs that somebody asked for and that nobody took up yet."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ekiden.core.errors import SessionNotFound
from ekiden.handoff.history_query import EVERYTHING, HandoffQuery
from ekiden.handoff.records import HandoffRecord, Move
from ekiden.runtime.leases import REQUESTS
from ekiden.runtime.requests import Asked, asked_in
from ekiden.storage.base import Store


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


async def _requests(store: Store, session_id: str | None) -> AsyncIterator[tuple[str, Asked]]:
    after, prefix = "", "" if session_id is None else f"{session_id}/"
    while documents := await store.list_documents(REQUESTS, prefix=prefix, after=after):
        for document in documents:
            of_session, asked = document.key.rpartition("/")[0], asked_in(document)
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
