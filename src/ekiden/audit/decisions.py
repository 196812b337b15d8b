"""Holding closed inbox items against the events that closed them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ekiden.audit.findings import BrokenLink, Fault, Verification
from ekiden.audit.record import details_of
from ekiden.audit.walk import UNREADABLE, why_unreadable
from ekiden.core.events import Event
from ekiden.storage.base import Document, Store
from ekiden.storage.digests import ITEM_DIGEST, json_digest

_OPEN, _CLOSED, _ORDER = "inbox.open", "inbox.done", "inbox.order"
"""The collections of the inbox."""
_CLOSED_ORDER = "2/"
"""Closed items come behind this in the order; an id has no slash."""
_ENDS = frozenset({"answered", "expired", "cancelled"})
_ITEMS_PAGE = 500


async def check_decisions(store: Store, found: Verification) -> None:
    """Report the first item that is not as the event of its end says; count the others.

    Deleting closed items is part of retention: the event keeps what was decided. Items that an
    earlier version closed have no digest.
    """
    try:
        await _check(store, found)
    except UNREADABLE as exc:
        found.report(
            _broken(
                None,
                "unreadable",
                f"an inbox item, or its event, is damaged ({why_unreadable(exc)})",
            )
        )


async def _check(store: Store, found: Verification) -> None:
    endings = _Endings(store)
    for collection in (_CLOSED, _ORDER, _OPEN):
        async for document in _documents(store, collection):
            item_id = document.key.rpartition("/")[2]
            is_closed = collection == _CLOSED or document.key.startswith(_CLOSED_ORDER)
            ending = await endings.of(item_id, must_be=is_closed)
            if ending is None and is_closed:
                told = (
                    f"no event closed the inbox item {item_id}: the event was taken away, or the "
                    "item was put in"
                )
                found.report(_broken(None, "added", told))
                return
            expected = None if ending is None else details_of(ending).get(ITEM_DIGEST)
            if not isinstance(expected, str):
                continue
            if json_digest(document.body) != expected:
                told = f"the inbox item {item_id} is not as it was when it was closed"
                found.report(_broken(ending, "changed", told))
                return
            found.decisions += collection == _CLOSED


class _Endings:
    """By the ids of items, the events that closed them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._events: dict[str, Event] = {}
        self._last: int | None = None

    async def of(self, item_id: str, *, must_be: bool) -> Event | None:
        """The event that closed the item; if there `must_be` one, also if it came meanwhile."""
        if self._last is None or (must_be and item_id not in self._events):
            await self._read_on()
        return self._events.get(item_id)

    async def _read_on(self) -> None:
        self._last = self._last or 0
        while page := await self._store.events("", after=self._last, limit=_ITEMS_PAGE):
            for event in page:
                self._add(event)
            self._last = page[-1].seq

    def _add(self, event: Event) -> None:
        details = details_of(event)
        change = details.get("change")
        if event.type != "inbox" or not isinstance(change, str):
            return
        if change in _ENDS:
            self._events[str(details.get("item"))] = event
        elif change == "posted":
            # The id of an item that was deleted may be used again.
            self._events.pop(str(details.get("item")), None)


async def _documents(store: Store, collection: str) -> AsyncIterator[Document]:
    after = ""
    while page := await store.list_documents(collection, after=after, limit=_ITEMS_PAGE):
        for document in page:
            yield document
        after = page[-1].key


def _broken(event: Event | None, fault: Fault, message: str) -> BrokenLink:
    record_id = "" if event is None else event.event_id
    return BrokenLink(
        record_id=record_id,
        session_id="",
        fault=fault,
        message=f"{record_id}: {message}" if record_id else message,
        at_us=0 if event is None else event.at_us,
    )
