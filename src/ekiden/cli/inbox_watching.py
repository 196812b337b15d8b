"""Questions to people as they come, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from ekiden.cli.tables import clock_time
from ekiden.cli.transcript import shorten
from ekiden.core.errors import StoreError
from ekiden.inbox import run_due
from ekiden.storage.base import Store

_LONGEST = 120
_KEEP_TIME_S = 1.0


@asynccontextmanager
async def keeping_time(store: Store) -> AsyncIterator[None]:
    """While the body runs, deadlines and escalations of the inbox are kept."""

    async def keep() -> None:
        while True:
            with suppress(StoreError):
                await run_due(store, now_us=await store.now_us())
            await asyncio.sleep(_KEEP_TIME_S)

    task = asyncio.create_task(keep(), name="ekiden-inbox-time")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def change_line(at_us: int, details: Mapping[str, Any]) -> str:
    """A change of a question, for people."""
    change = str(details.get("change") or "posted")
    by = details.get("by")
    answer = details.get("choice") or details.get("text")
    until = details.get("snoozed_until_us") if change == "snoozed" else None
    words = (
        clock_time(at_us / 1e6),
        str(details.get("item") or "-"),
        "new" if change == "posted" else change,
        str(details.get("kind") or ""),
        f"{details.get('from')} → {details.get('role')}:",
        shorten(" ".join(str(details.get("subject") or "").split()), _LONGEST),
        f"→ {shorten(' '.join(str(answer).split()), _LONGEST)}" if answer else "",
        f"until {clock_time(until / 1e6)}" if isinstance(until, int) else "",
        f"to {details.get('assignee') or 'nobody'}" if change == "assigned" else "",
        f"by {by}" if isinstance(by, str) and by else "",
    )
    return "  ".join(word for word in words if word)
