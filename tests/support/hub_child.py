"""A process that writes events: ``python -m tests.support.hub_child url name seed count``.

It begins when it is told to by a line on its standard input. It writes to sessions and to none,
several at a time, in transactions of different sizes; each event has a name of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import islice
from random import Random

from ekiden.core.events import Event
from ekiden.project import open_store
from ekiden.storage.base import Batch, Commit, NewSession, SessionPatch, Store

_HANDS = 3


def _events(session_id: str, first: int, names: list[str]) -> list[Event]:
    return [
        Event(session_id=session_id, seq=seq, type="message", at_us=seq, details={"name": name})
        for seq, name in enumerate(names, start=first)
    ]


async def _write(store: Store, hand: str, dice: Random, names: Iterator[str]) -> None:
    """Take names and write them as events until there are no more."""
    claim, row = await store.claim(
        hand, owner=hand, lease_s=60, create=NewSession(id=hand, agent="a")
    )
    seq = row.seq
    while chosen := list(islice(names, dice.randint(1, 4))):
        if dice.random() < 0.4:
            events = [Event(session_id="", seq=0, type="inbox", at_us=1, details={"name": each})
                      for each in chosen]  # fmt: skip
            await store.write(Batch(events=events))
        else:
            events = _events(hand, seq + 1, chosen)
            seq += len(events)
            await store.commit(claim, Commit(patch=SessionPatch(), events=events))
        if dice.random() < 0.3:
            await asyncio.sleep(dice.random() * 0.01)


async def main(url: str, name: str, seed: str, count: str) -> None:
    """Open the store and write."""
    names = iter([f"{name}-{number}" for number in range(int(count))])
    async with open_store(url) as store:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        async with asyncio.TaskGroup() as hands:
            for hand in range(_HANDS):
                dice = Random(f"{seed}.{name}.{hand}")
                hands.create_task(_write(store, f"{name}.{hand}", dice, names))
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
