"""A store that delivers again, doubles and disorders: all that a queue may do to a bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from ekiden.storage.base import (
    Batch,
    MessageSettle,
    PutReceipt,
    QueueMessage,
    QueuePut,
    Settled,
    Store,
    Written,
)

MOST = 5
"""Nothing is done to one message more often."""


class MischievousStore:
    """The store behind it, with as much mischief as the seed makes."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._random = Random(seed)
        self._released: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        """How much was done, by kind."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        return (await self.write(Batch(messages=messages))).receipts

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        return (await self.write(Batch(settles=settles))).settled

    async def write(self, batch: Batch) -> Written:
        puts = self._repeated(range(len(batch.messages)), "doubled")
        settles = self._repeated(range(len(batch.settles)), "settled again")
        written = await self._store.write(
            replace(
                batch,
                messages=[batch.messages[number] for number in puts],
                settles=[batch.settles[number] for number in settles],
            )
        )
        receipts: dict[int, PutReceipt] = {}
        for number, receipt in zip(puts, written.receipts, strict=True):
            receipts.setdefault(number, receipt)
        settled: dict[int, Settled] = {}
        for number, each in zip(settles, written.settled, strict=True):
            settled.setdefault(number, each)
        for number, put in enumerate(batch.messages):
            if put.taken_by is not None and receipts[number].is_new:
                await self._take_away(_delivery(put, receipts[number].id))
        return Written(
            receipts=[receipts[number] for number in range(len(batch.messages))],
            settled=[settled[number] for number in range(len(batch.settles))],
        )

    async def take_messages(self, queue: str, **options: Any) -> Sequence[QueueMessage]:
        taken = list(await self._store.take_messages(queue, **options))
        if len(taken) > 1:
            self._random.shuffle(taken)
            self.done["disordered"] += 1
        for message in taken:
            await self._take_away(message)
        return taken

    async def _take_away(self, message: QueueMessage) -> None:
        """Now and then a second process gets the message, too, although the first will answer."""
        key = message.key or ""
        if self._released[key] < MOST and self._random.random() < 0.5:
            self._released[key] += 1
            self.done["delivered again"] += await self._store.release_message(message)

    def _repeated(self, numbers: range, what: str) -> list[int]:
        repeated = [each for each in numbers for _ in range(self._random.randint(1, MOST))]
        self.done[what] += len(repeated) - len(numbers)
        self._random.shuffle(repeated)
        return repeated


def _delivery(put: QueuePut, number: int) -> QueueMessage:
    return QueueMessage(
        id=number,
        queue=put.queue,
        body=None,
        priority=put.priority,
        attempts=1,
        owner=put.taken_by or "",
        key=put.key,
    )
