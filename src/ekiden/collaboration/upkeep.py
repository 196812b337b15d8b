"""What is to be done about collaborations as time goes by."""

from __future__ import annotations

from contextlib import suppress

from ekiden.collaboration.ledger import TIMER, CollaborationSettings, Ledger
from ekiden.collaboration.protocol.record import Collaboration
from ekiden.collaboration.protocol.stored import COLLABORATIONS, read_record
from ekiden.core.errors import StaleDocument
from ekiden.core.errors.collaboration import CollaborationError
from ekiden.storage.base import DocumentWrite, Store
from ekiden.storage.timers import due_timers, remove_timer

_PAGE = 100


async def run_due(store: Store, *, now_us: int | None = None) -> int:
    """Expire overdue collaborations of a store; returns how many timers were handled."""
    return len(await expire_due(Ledger(store, CollaborationSettings()), now_us=now_us))


async def expire_due(ledger: Ledger, *, now_us: int | None = None) -> list[Collaboration]:
    """Expire those whose time is over; as they are then."""
    store = ledger.store
    now_us = await store.now_us() if now_us is None else now_us
    seen: list[Collaboration] = []
    for timer in await due_timers(store, now_us=now_us, kind=TIMER, limit=_PAGE):
        with suppress(CollaborationError):
            found = await ledger.look(timer.id)
            seen.append(found)
            if found.due_us == timer.due_us:
                continue
        # Expiring removed it; if it is still there, it is about something that is gone.
        await remove_timer(store, timer)
    return seen


async def cleanup(store: Store, *, older_than_s: float) -> int:
    """Remove those that were closed so long ago; how many. Open ones are not touched.

    One whose first message could still be said again stays until it could not: it would begin anew.
    """
    now = (await store.now_us()) / 1e6
    count, after = 0, ""
    while True:
        page = await store.list_documents(COLLABORATIONS, after=after, limit=_PAGE)
        for document in page:
            after = document.key
            with suppress(CollaborationError, StaleDocument):
                if not _is_old(read_record(document), now, older_than_s):
                    continue
                removal = DocumentWrite(
                    collection=COLLABORATIONS,
                    key=document.key,
                    body=None,
                    expected_version=document.version,
                )
                await store.write_documents([removal])
                count += 1
        if len(page) < _PAGE:
            return count


def _is_old(record: Collaboration, now: float, older_than_s: float) -> bool:
    closed_at, first = record.completed_at, record.messages[0]
    if closed_at is None or closed_at > now - older_than_s:
        return False
    return first.ttl is not None and first.created_at + first.ttl < now
