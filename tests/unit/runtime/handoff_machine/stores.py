"""Stores that break off in the middle of a run, as a crash would."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ekiden.storage.base import Claim, Commit, DocumentWrite
from ekiden.storage.memory import MemoryStore


class Cut(BaseException):
    """Ends a run as a crash would."""


class Cutting:
    """Breaks off at a commit, before or after it is stored; and remembers who had the session."""

    in_commits = 0
    after = False
    cuts = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.holders: list[tuple[int, str]] = []
        self.holder = ""
        self.seq = 0
        self.is_asked = asyncio.Event()
        """Somebody left a request."""

    def cut(self, number: int) -> None:
        """Break off at one of the next commits; 0: at none."""
        self.in_commits, self.after = (number + 1) // 2, number % 2 == 0

    async def commit(self, claim: Claim, commit: Commit) -> None:
        self.in_commits -= 1
        if self.in_commits == 0 and not self.after:
            self.cuts += 1
            raise Cut
        await super().commit(claim, commit)  # type: ignore[misc]
        self.holder = commit.patch.agent or self.holder
        if commit.events:
            self.seq = commit.events[-1].seq
        self.holders.append((self.seq, self.holder))
        if self.in_commits == 0:
            self.cuts += 1
            raise Cut

    async def write_documents(self, writes: Sequence[DocumentWrite], **options: Any) -> None:
        await super().write_documents(writes, **options)  # type: ignore[misc]
        self.is_asked.set()


class CuttingMemory(Cutting, MemoryStore):
    """In memory."""
