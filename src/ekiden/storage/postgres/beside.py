"""What a commit and a batch may write beside everything else, in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.storage.base import Batch, Commit, PutReceipt, Settled, Written
from ekiden.storage.postgres.documents import PreparedDocument, prepare_documents, store_documents
from ekiden.storage.postgres.openings import PreparedOpening, prepare_openings, store_openings
from ekiden.storage.postgres.puts import PreparedMessage, prepare_messages, store_messages
from ekiden.storage.postgres.settles import PreparedSettle, prepare_settles, store_settles
from ekiden.storage.postgres.wakes import lock_sessions, wake_sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Documents, messages, their ends, new sessions and those to wake, all JSON as text."""

    documents: Sequence[PreparedDocument]
    messages: Sequence[PreparedMessage]
    settles: Sequence[PreparedSettle]
    openings: Sequence[PreparedOpening]
    wakes: Sequence[str]

    @classmethod
    def prepare(cls, write: Commit | Batch) -> Beside:
        """`UserError`, `StepConflict`."""
        return cls(
            documents=prepare_documents(write.documents),
            messages=prepare_messages(write.messages),
            settles=prepare_settles(write.settles),
            openings=prepare_openings(write.openings),
            wakes=write.wakes,
        )

    def __bool__(self) -> bool:
        return bool(self.documents or self.messages or self.settles or self.openings or self.wakes)

    async def lock(self, connection: Any, *, num: int | None = None) -> None:
        """Lock the sessions that may be woken, and the one numbered `num`, if there are any: to be
        called before anything is written."""
        keys = [each.settle.key for each in self.settles if each.wakes]
        if keys or self.wakes:
            await lock_sessions(connection, num=num, ids=self.wakes, keys=keys)

    async def store(self, connection: Any, *, token: int) -> Written:
        """Write it; `SessionExists`, `StaleDocument`, `QueueFull`: all must be undone."""
        receipts: Sequence[PutReceipt] = ()
        settled: Sequence[Settled] = ()
        if self.openings:
            await store_openings(connection, self.openings)
        if self.documents:
            await store_documents(connection, self.documents)
        if self.messages:
            receipts = await store_messages(connection, self.messages, token=token)
        if self.settles:
            settled = await store_settles(connection, self.settles)
        if self.wakes:
            await wake_sessions(connection, self.wakes)
        return Written(receipts=receipts, settled=settled)
