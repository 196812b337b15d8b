"""A store whose process may die at any write, and which knows how each question ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ekiden.storage.base import (
    Batch,
    Claim,
    Commit,
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    SessionRow,
    Settled,
    Written,
)
from ekiden.storage.memory import MemoryStore


class Death(BaseException):
    """The process is killed: nothing that it does from here on has any effect."""


class MortalMemory(MemoryStore):
    """In memory; dies at a write, before or after it is stored, and is dead until revived."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.deaths = 0
        self.endings: defaultdict[str, list[str]] = defaultdict(list)
        """By the id of a message: how it was settled."""
        self._writes_left = 0
        self._is_after = False
        self._is_dead = False
        self._claims: dict[str, Claim] = {}

    def die_in(self, number: int) -> None:
        """Die at one of the next writes, of which each counts twice; 0: at none."""
        self._writes_left, self._is_after = (number + 1) // 2, number % 2 == 0

    async def revive(self) -> None:
        """A new process, when the leases of the dead one have run out."""
        if self._is_dead:
            self._is_dead = False
            for claim in self._claims.values():
                await super().release(claim)
        self._claims.clear()
        self.die_in(0)

    def _check_open(self) -> None:
        if self._is_dead:
            raise Death
        super()._check_open()

    def _before(self) -> None:
        self._check_open()
        self._writes_left -= 1
        if self._writes_left == 0 and not self._is_after:
            self._die()

    def _afterwards(self) -> None:
        if self._writes_left == 0 and self._is_after:
            self._die()

    def _die(self) -> None:
        self.deaths += 1
        self._is_dead = True
        raise Death

    async def claim(self, *args: Any, **options: Any) -> tuple[Claim, SessionRow]:
        claim, row = await super().claim(*args, **options)
        self._claims[row.id] = claim
        return claim, row

    async def claim_next(self, **options: Any) -> tuple[Claim, SessionRow] | None:
        taken = await super().claim_next(**options)
        if taken is not None:
            self._claims[taken[1].id] = taken[0]
        return taken

    async def commit(self, claim: Claim, commit: Commit) -> None:
        self._before()
        async with self._watched(commit.settles):
            await super().commit(claim, commit)
        self._afterwards()

    async def write(self, batch: Batch) -> Written:
        self._before()
        async with self._watched(batch.settles):
            written = await super().write(batch)
        self._afterwards()
        return written

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        self._before()
        async with self._watched(settles):
            settled = await super().settle_messages(settles)
        self._afterwards()
        return settled

    async def write_documents(self, writes: Sequence[DocumentWrite], **options: Any) -> None:
        self._before()
        await super().write_documents(writes, **options)
        self._afterwards()

    @asynccontextmanager
    async def _watched(self, settles: Sequence[MessageSettle]) -> AsyncIterator[None]:
        """Note how those questions end that were open before the body and are not afterwards."""
        keys = [each.key for each in settles]
        was_open = await self._open_ones(keys) if keys else []
        yield
        is_open = await self._open_ones(keys) if keys else []
        for key in was_open:
            if key not in is_open:
                found = await self.find_messages(MessageFilter(keys=[key]))
                self.endings[key].append(found[0].state if found else "forgotten")

    async def _open_ones(self, keys: Sequence[str]) -> list[str]:
        where = MessageFilter(keys=keys, states={"open"})
        found = await self.find_messages(where, limit=len(keys))
        return [message.key for message in found if message.key is not None]
