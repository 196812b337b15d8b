"""While the inbox is watched, its deadlines expire."""

from __future__ import annotations

import asyncio

from ekiden.cli.views.inbox import keeping_time
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.storage.memory import MemoryStore


async def test_timers_run_while_the_inbox_is_watched() -> None:
    store = MemoryStore()
    item = InboxItem(
        id="q", kind="approval", from_agent="sales", subject="?", deadline_us=1, default="no"
    )
    async with keeping_time(store):
        await Inbox(store).post(item)
        async with asyncio.timeout(60):
            while await store.get_document("inbox.done", "q") is None:
                await store.wait_for_change(0.1)
