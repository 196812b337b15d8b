"""A process that uses a SQLite store: ``python -m tests.support.sqlite_child path name task``.

It begins when it is told to by a line on its standard input, and says what was acknowledged, one
line each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from ekiden.storage.base import Commit, NewSession, QueuePut, SessionPatch, Store
from ekiden.storage.sqlite import SqliteStore
from tests.support.sqlite import one_event

LEASE_S = 60.0


def say(*words: object) -> None:
    """One line, at once."""
    print(*words, flush=True)


async def write(store: Store, name: str) -> None:
    """Ten sessions of five events, side by side."""

    async def relay(session_id: str) -> None:
        new = NewSession(id=session_id, agent="a")
        claim, _ = await store.claim(session_id, owner=name, lease_s=LEASE_S, create=new)
        for seq in range(1, 6):
            await store.commit(claim, one_event(session_id, seq))
        say(session_id)

    await asyncio.gather(*(relay(f"{name}-{number}") for number in range(10)))


async def one_by_one(store: Store, name: str) -> None:
    """One session, whose every write is acknowledged before the next."""
    new = NewSession(id=name, agent="a")
    claim, _ = await store.claim(name, owner=name, lease_s=LEASE_S, create=new)
    say(name)
    for seq in range(1, 20):
        await store.commit(claim, one_event(name, seq))
        say(name, seq)


async def write_for_ever(store: Store, name: str) -> None:
    """Twenty sessions that grow until the process is killed."""

    async def grow(session_id: str) -> None:
        new = NewSession(id=session_id, agent="a")
        claim, _ = await store.claim(session_id, owner=name, lease_s=LEASE_S, create=new)
        seq = 0
        while True:
            seq += 1
            await store.commit(claim, one_event(session_id, seq, steps={f"k{seq}": seq}))
            say(session_id, seq)

    await asyncio.gather(*(grow(f"{name}-{number}") for number in range(20)))


async def work(store: Store, name: str) -> None:
    """Take ready sessions until there are none, and finish each."""
    while (found := await store.claim_next(owner=name, lease_s=LEASE_S)) is not None:
        claim, row = found
        await store.commit(claim, one_event(row.id, row.seq + 1))
        await store.commit(claim, Commit(patch=SessionPatch(status="idle"), release=True))
        say(row.id)


async def take_and_die(store: Store, name: str) -> None:
    """Put a message, take it, and be killed."""
    await store.put_messages([QueuePut(queue="q", body={"n": 1}, key="k")])
    (taken,) = await store.take_messages("q", owner=name, lease_s=LEASE_S)
    say("took", taken.key)
    os.kill(os.getpid(), signal.SIGKILL)


TASKS: dict[str, Callable[[Store, str], Awaitable[None]]] = {
    "write": write,
    "one_by_one": one_by_one,
    "write_for_ever": write_for_ever,
    "work": work,
    "take_and_die": take_and_die,
}


async def main(path: str, name: str, task: str) -> None:
    """Open the store and do the task."""
    async with SqliteStore(path) as store:
        await TASKS[task](store, name)


if __name__ == "__main__":
    say("ready")
    sys.stdin.readline()
    asyncio.run(main(*sys.argv[1:]))
