"""A process that takes part: ``python -m tests.unit.collaboration.child path moment task …``.

It begins when it is told to by a line on its standard input, and says what came of each
collaboration, one line each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from ekiden.bus import Bus
from ekiden.collaboration import Collaboration, Collaborations, CollaborationSettings, Party
from ekiden.core.errors.collaboration import CollaborationError
from ekiden.storage.base import Batch, Written
from ekiden.storage.sqlite import SqliteStore

LEASE_S = 0.5
SETTINGS = CollaborationSettings(lease_s=LEASE_S)

Act = Callable[[Callable[[str], Party], str], Awaitable[Any]]


def say(*words: object) -> None:
    """One line, at once."""
    print(*words, flush=True)


def die() -> None:
    """As if the power failed."""
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(SqliteStore):
    """A store whose process dies before or after the write with a number."""

    moment = ("never", 0)
    writes = 0

    async def write(self, batch: Batch) -> Written:
        self.writes += 1
        when, number = self.moment
        if when == "before" and self.writes == number:
            die()
        written = await super().write(batch)
        if when == "after" and self.writes == number:
            die()
        return written


class Counting:
    """Notes in a file what it does, once for each collaboration; may die before or after it."""

    def __init__(self, notes: Path, when: str = "never") -> None:
        self.notes = notes
        self.when = when

    async def execute(self, collaboration: Collaboration) -> dict[str, Any]:
        if self.when == "before":
            die()
        done = self.notes.read_text().split() if self.notes.exists() else []
        if collaboration.id not in done:
            with self.notes.open("a") as notes:
                notes.write(f"{collaboration.id}\n")
        if self.when == "after":
            die()
        return {"done": collaboration.id}


ACTS: dict[str, Act] = {
    "ann-accept": lambda party, which: party("ann").accept(which, 1),
    "bob-counter": lambda party, which: party("bob").counter(which, "other"),
    "ann-cancel": lambda party, which: party("ann").cancel(which),
    "bob-cancel": lambda party, which: party("bob").cancel(which),
    "bob-acknowledge": lambda party, which: party("bob").acknowledge(which),
    "award-bob": lambda party, which: party("ann").award(which, "bob"),
    "award-cy": lambda party, which: party("ann").award(which, "cy"),
    "cy-bid": lambda party, which: party("cy").bid(which, 0.5),
}


async def act(store: SqliteStore, moves: Sequence[str]) -> None:
    """Make the moves, each ``name:id``, one after the other, and say whether they counted."""
    collaborations = Collaborations(Bus(store), settings=SETTINGS)
    for name, which in (move.split(":") for move in moves):
        try:
            await ACTS[name](collaborations.as_agent, which)
        except CollaborationError as exc:
            say(which, exc.code)
        else:
            say(which, "made")


async def execute(store: SqliteStore, when: str, notes: str) -> None:
    """Do what is agreed until there is something that came to its end."""
    executor = Counting(Path(notes), when)
    collaborations = Collaborations(Bus(store), executor=executor, settings=SETTINGS)
    while True:
        for ended in await collaborations.resume():
            say(ended.id, ended.phase)
            return
        await store.wait_for_change(LEASE_S / 5)


async def main(path: str, moment: str, task: str, *arguments: str) -> None:
    """Open the store and do the task, unless it dies at the moment, ``when:number``."""
    how, _, number = moment.partition(":")
    async with Mortal(path) as store:
        store.moment = (how, int(number))
        if task == "execute":
            await execute(store, *arguments)
        else:
            await act(store, arguments)


if __name__ == "__main__":
    say("ready")
    sys.stdin.readline()
    asyncio.run(main(*sys.argv[1:]))
