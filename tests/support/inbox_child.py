"""A process that answers questions: ``python -m tests.support.inbox_child url name task``.

It begins when it is told to by a line on its standard input, which has the ids of the items, and
says one line for each item that it closed.
"""

from __future__ import annotations

import asyncio
import sys
from random import Random

from ekiden.core.errors.messages import InboxItemClosed
from ekiden.inbox import Inbox, run_due
from ekiden.project import open_store
from ekiden.storage.base import Store


async def try_it(inbox: Inbox, item_id: str, name: str) -> None:
    """Answer it; the second one learns who was first, and prints nothing."""
    try:
        await inbox.answer(item_id, choice="yes", by=name)
    except InboxItemClosed as exc:
        if not exc.by:
            raise
    else:
        print(item_id, flush=True)


async def answer(store: Store, name: str, ids: list[str]) -> None:
    """All of them in a random order, several at a time."""
    inbox = Inbox(store)
    Random(name).shuffle(ids)
    hands = asyncio.Semaphore(8)

    async def one(item_id: str) -> None:
        async with hands:
            await try_it(inbox, item_id, name)

    await asyncio.gather(*map(one, ids))


async def race(store: Store, name: str, ids: list[str]) -> None:
    """One after the other in the given order, as the other processes do."""
    inbox = Inbox(store)
    for item_id in ids:
        await try_it(inbox, item_id, name)


async def keep_time(store: Store, name: str, ids: list[str]) -> None:
    """What is due, until all are closed; says how many it changed."""
    inbox = Inbox(store)
    changed = 0
    while ids:
        changed += await run_due(store, now_us=await store.now_us())
        ids = [item_id for item_id in ids if (await inbox.get(item_id)).status == "open"]
    print(changed, flush=True)


TASKS = {"answer": answer, "race": race, "keep_time": keep_time}


async def main(url: str, name: str, task: str) -> None:
    """Open the store, wait for the word, and do it."""
    async with open_store(url) as store:
        await store.now_us()
        print("ready", flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        await TASKS[task](store, name, line.split())
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
