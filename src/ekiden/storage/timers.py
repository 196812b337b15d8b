"""Timers: documents whose keys are in the order of their times.

A timer is a hint: the process that finds a due timer reads its subject, does what is due and
removes the timer. Times are those of the store's clock.
"""

from __future__ import annotations

from typing import Any

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import StaleDocument
from ekiden.storage.base import Document, DocumentStore, DocumentWrite

TIMERS = "timers"
_DIGITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Something that is due at a time."""

    due_us: int
    kind: str
    """What is to be done: ``inbox``, ``query`` …"""
    id: str
    """What it is about."""
    version: int = 0

    @property
    def key(self) -> str:
        """The key of its document."""
        return f"{max(self.due_us, 0):0{_DIGITS}d}/{self.kind}/{self.id}"


def timer_write(timer: Timer, body: Any = True) -> DocumentWrite:
    """Set it; a second one for the same time and thing is the same timer."""
    return DocumentWrite(collection=TIMERS, key=timer.key, body=body)


def timer_removal(timer: Timer) -> DocumentWrite:
    """Remove it; nothing happens if it is gone."""
    return DocumentWrite(collection=TIMERS, key=timer.key, body=None)


async def due_timers(
    store: DocumentStore,
    *,
    now_us: int,
    limit: int = 100,
    kind: str | None = None,
    after: str = "",
) -> list[Timer]:
    """Due timers, the oldest first: of one kind if given, and behind the key `after`."""
    found: list[Timer] = []
    while True:
        documents = await store.list_documents(TIMERS, after=after, limit=limit)
        timers = [timer for timer in map(_timer, documents) if timer is not None]
        due = [timer for timer in timers if timer.due_us <= now_us]
        found += [timer for timer in due if kind in (None, timer.kind)]
        if len(found) >= limit or len(documents) < limit or len(due) < len(timers):
            return found[:limit]
        after = documents[-1].key


async def next_due_us(store: DocumentStore) -> int | None:
    """When the next one is due."""
    after = ""
    while documents := await store.list_documents(TIMERS, after=after, limit=1):
        timer = _timer(documents[0])
        if timer is not None:
            return timer.due_us
        after = documents[0].key
    return None


async def remove_timer(store: DocumentStore, timer: Timer) -> bool:
    """Remove it; whether it was there: of several who find one that is due, one gets `True`."""
    removal = DocumentWrite(
        collection=TIMERS, key=timer.key, body=None, expected_version=timer.version
    )
    try:
        await store.write_documents([removal])
    except StaleDocument:
        return False
    return True


def _timer(document: Document) -> Timer | None:
    """The timer of a document; `None` for what is none of ours."""
    due, _, rest = document.key.partition("/")
    kind, _, about = rest.partition("/")
    if not (due.isascii() and due.isdecimal() and about):
        return None
    return Timer(due_us=int(due), kind=kind, id=about, version=document.version)
