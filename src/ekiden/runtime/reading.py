"""Reading what is stored of a session no further than its row says."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.core.errors import LeaseLost
from ekiden.core.events import Event
from ekiden.storage.base import SessionRow, Store


async def told_so_far(
    store: Store, session_id: str, seq: int, *, after: int = 0, with_items: bool = False
) -> Sequence[Event]:
    """The events of a session of which its owner knows that event `seq` is the last.

    `LeaseLost` if others wrote since, or deleted it: whoever was stopped between claiming a session
    and reading it would go on with a conversation that does not fit where it takes up the run.
    """
    events = await store.events(session_id, after=after, with_items=with_items)
    last = events[-1].seq if events else min(after, seq)
    if last > seq or (last < seq and not with_items):
        raise LeaseLost(session_id)
    return events


def up_to(row: SessionRow, events: Sequence[Event]) -> Sequence[Event]:
    """Those that were there when the row was read."""
    return [event for event in events if event.seq <= row.seq]
