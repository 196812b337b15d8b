"""A person who answers in step with another: ``python -m tests.faults.approver URL NAME FILE WHO``.

Both wait for each other before every answer, so that the answers are given in the same millisecond.
It begins at a line on its standard input, which has the ids of the items, and says one line for
each: what came of it, and who was first.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
import time
from pathlib import Path

from ekiden.core.errors.messages import InboxItemClosed
from ekiden.inbox import Inbox
from ekiden.project import open_store
from tests.faults.waiting import DEADLINE_S

COUNT = struct.Struct("<q")
SIZE = 2 * COUNT.size
_BLINK_S = 0.0001


class Step:
    """A place in memory for each of two processes, where it says how far it is."""

    def __init__(self, file: Path, who: int) -> None:
        descriptor = os.open(file, os.O_RDWR)
        try:
            self._shared = mmap.mmap(descriptor, SIZE)
        finally:
            os.close(descriptor)
        self._mine, self._others = COUNT.size * who, COUNT.size * (1 - who)

    def reach(self, number: int) -> None:
        """Say that this one is here, and return when the other is."""
        COUNT.pack_into(self._shared, self._mine, number)
        deadline = time.monotonic() + DEADLINE_S
        while COUNT.unpack_from(self._shared, self._others)[0] < number:
            assert time.monotonic() < deadline, "the other one does not come"
            time.sleep(_BLINK_S)


async def main(url: str, name: str, file: str, who: str) -> None:
    """Answer each item with `name`, and tell who was first."""
    step = Step(Path(file), int(who))
    async with open_store(url) as store:
        inbox = Inbox(store)
        await store.now_us()
        print("ready", flush=True)
        ids = (await asyncio.to_thread(sys.stdin.readline)).split()
        told = []
        for number, item_id in enumerate(ids, start=1):
            step.reach(number)
            try:
                await inbox.answer(item_id, choice="yes", by=name)
                told.append(f"{item_id} won {name}")
            except InboxItemClosed as exc:
                told.append(f"{item_id} lost {exc.by}")
    print("\n".join(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
