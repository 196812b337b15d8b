"""Holding closed inbox items against the events that closed them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ekiden.audit.findings import BrokenLink, Verification
from ekiden.audit.record import details_of
from ekiden.audit.walk import UNREADABLE, why_unreadable
from ekiden.core.events import Event
from ekiden.storage.base import Document, Store
from ekiden.storage.digests import ITEM_DIGEST, json_digest

_OPEN, _CLOSED, _ORDER = "inbox.open", "inbox.done", "inbox.order"
"""The collections of the inbox."""
_PAGE = 500


async def check_decisions(store: Store, found: Verification) -> None:
    """Report the first item that is not as the event of its end says; count the others.

    Deleting closed items is part of retention: the event keeps what was decided. Items that an
    earlier version closed have no digest.
    """
    try:
        await _check(store, found)
    except UNREADABLE as exc:
        found.report(
            BrokenLink(
                record_id="",
                session_id="",
                fault="unreadable",
                message="records of no session, or inbox items, cannot be read "
                f"({why_unreadable(exc)})",
                at_us=0,
            )
        )


async def _check(store: Store, found: Verification) -> None:
    closed: dict[str, Event] = {}
    async for event in _free_events(store):
        details = details_of(event)
        if event.type == "inbox" and isinstance(details.get(ITEM_DIGEST), str):
            closed[str(details.get("item"))] = event
    if not closed:
        return
    for collection in (_CLOSED, _ORDER, _OPEN):
        async for document in _documents(store, collection):
            item_id = document.body.get("id") if isinstance(document.body, dict) else document.key
            ending = closed.get(str(item_id))
            if ending is None:
                continue
            if json_digest(document.body) != details_of(ending)[ITEM_DIGEST]:
                told = f"the inbox item {item_id} is not as it was when it was closed"
                found.report(_broken(ending, told))
                return
            found.decisions += collection == _CLOSED


async def _free_events(store: Store) -> AsyncIterator[Event]:
    after = 0
    while page := await store.events("", after=after, limit=_PAGE):
        for event in page:
            yield event
        after = page[-1].seq


async def _documents(store: Store, collection: str) -> AsyncIterator[Document]:
    after = ""
    while page := await store.list_documents(collection, after=after, limit=_PAGE):
        for document in page:
            yield document
        after = page[-1].key


def _broken(event: Event, message: str) -> BrokenLink:
    return BrokenLink(
        record_id=event.event_id,
        session_id="",
        fault="changed",
        message=f"{event.event_id}: {message}",
        at_us=event.at_us,
    )
