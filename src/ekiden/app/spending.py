"""What model calls cost, with the prices of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from ekiden.app.running import prices_of
from ekiden.app.settings import Settings
from ekiden.sessions.costs import CostBook, CostKey, CostReport, call_pages, events_with_asked
from ekiden.storage.base import Store


async def costs(
    store: Store,
    settings: Settings,
    *,
    session_id: str | None = None,
    since: datetime | None = None,
    by: Sequence[CostKey] = ("agent", "model"),
) -> CostReport:
    """What calls used and cost: those of a session and of all that answered it, or of all there
    are; `SessionNotFound`. For example::

        report = await costs(store, project.settings, by=["day"])
    """
    since_us = None if since is None else int(since.timestamp() * 1e6)
    book = CostBook(prices_of(settings), by=by)
    if session_id is not None:
        events = await events_with_asked(store, session_id)
        book.add(event for event in events if since_us is None or event.at_us >= since_us)
        return book.report()
    async for page in call_pages(store, since_us=since_us):
        book.add(event for event in page if since_us is None or event.at_us >= since_us)
        await asyncio.sleep(0)  # A store in memory never waits, and others want their turn.
    return book.report()
