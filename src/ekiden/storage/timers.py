"""Timers: documents whose keys are ordered by due time.

A timer is a hint: the process that finds a due timer reads the timer's subject, does the work and
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
    """Work that is due at a time."""

    due_us: int
    kind: str
    """The kind of work: ``inbox``, ``query`` …"""
    id: str
    """The id of the subject, e.g. of an inbox item."""
    version: int = 0
    """The version of the document."""

    @property
    def key(self) -> str:
        """The key of the document."""
        return f"{max(self.due_us, 0):0{_DIGITS}d}/{self.kind}/{self.id}"


def timer_write(timer: Timer, body: Any = True) -> DocumentWrite:
    """The write that sets the timer; timers with the same time, kind and id are one timer."""
    return DocumentWrite(collection=TIMERS, key=timer.key, body=body)


def timer_removal(timer: Timer) -> DocumentWrite:
    """The write that removes the timer, if it exists."""
    return DocumentWrite(collection=TIMERS, key=timer.key, body=None)


async def due_timers(
    store: DocumentStore,
    *,
    now_us: int,
    limit: int = 100,
    kind: str | None = None,
    after: str = "",
) -> list[Timer]:
    """Due timers with keys above `after`, the oldest first; with `kind` only those of this kind."""
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
    """The due time of the next timer; `None` without timers."""
    after = ""
    while documents := await store.list_documents(TIMERS, after=after, limit=1):
        timer = _timer(documents[0])
        if timer is not None:
            return timer.due_us
        after = documents[0].key
    return None


async def remove_timer(store: DocumentStore, timer: Timer) -> bool:
    """Remove the timer. Returns true for only one of several processes that found it."""
    removal = DocumentWrite(
        collection=TIMERS, key=timer.key, body=None, expected_version=timer.version
    )
    try:
        await store.write_documents([removal])
    except StaleDocument:
        return False
    return True


def _timer(document: Document) -> Timer | None:
    """The timer of a document; `None` if its key is not that of a timer."""
    due, _, rest = document.key.partition("/")
    kind, _, about = rest.partition("/")
    if not (due.isascii() and due.isdecimal() and about):
        return None
    return Timer(due_us=int(due), kind=kind, id=about, version=document.version)
