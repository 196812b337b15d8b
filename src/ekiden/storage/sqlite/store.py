"""The store in one SQLite file, for all processes of one machine."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeVar

import apsw

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.events import Event
from ekiden.core.roles import Clock
from ekiden.core.values import SYSTEM_CLOCK
from ekiden.storage.base import (
    Batch,
    Claim,
    Commit,
    Document,
    DocumentWrite,
    EventFilter,
    EventPage,
    MessageFilter,
    MessageSettle,
    NewSession,
    PutReceipt,
    QueueMessage,
    QueuePut,
    QueueStarts,
    SessionFilter,
    SessionPage,
    SessionRow,
    Settled,
    StoredMessage,
    Written,
)
from ekiden.storage.chain import EventDigest
from ekiden.storage.copying import Migration, TableName
from ekiden.storage.sqlite import journal, queues, sessions, settle
from ekiden.storage.sqlite.connection import (
    LeaseClock,
    TransactionTime,
    check_in_place,
    machine_clock,
    query,
)
from ekiden.storage.sqlite.open_store import OpenStore, StoreFile, shipped
from ekiden.storage.sqlite.readers import Read, in_own_thread
from ekiden.storage.sqlite.rows import count_tables
from ekiden.storage.sqlite.search import SqliteSearch, vector_engine
from ekiden.storage.sqlite.writer import Work, Writer
from ekiden.storage.timers import DEAD_CHECK_S, LAPSE_S
from ekiden.storage.values import closed_store

T = TypeVar("T")

_COUNTED: Final[tuple[TableName, ...]] = (
    "sessions", "events", "steps", "documents", "messages", "search_entries",
)  # fmt: skip
_LATEST_MS: Final = 2**63 - 1


class SqliteStore(SqliteSearch, QueueStarts):
    """A `Store` in a file that only the current user of the operating system can read. A missing
    folder is created.

    Every acknowledged write is synced to disk. Leases use a monotonic clock of the machine, so a
    jump of the wall clock does not affect them::

        async with SqliteStore("desk.db") as store:
            await Runner.run(triage, "Where is my parcel?", session=Session("s1", store=store))
    """

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        busy_s: float = 10.0,
        clock: Clock = SYSTEM_CLOCK,
        lease_clock: LeaseClock | None = None,
        engine_version: str | None = None,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        """With ``create=False``, no file is created: a missing or empty file raises an error when
        the store is opened.

        A call waits at most `busy_s` seconds for a transaction of another process, then it raises
        `StoreUnavailable`. The other arguments are for tests.
        """
        if str(path) in ("", ":memory:"):
            raise UserError(f"{str(path)!r} names no file: use MemoryStore for a store in memory")
        self._file = StoreFile(
            path=Path(path).absolute(),
            create=create,
            busy_s=busy_s,
            clock=clock,
            lease_clock=lease_clock or machine_clock(),
            engine_version=engine_version or apsw.sqlite_lib_version(),
            migrations=migrations or shipped(),
        )
        self._clock = clock
        self._parts: OpenStore | None = None
        self._unclosed: weakref.finalize[[OpenStore, str], SqliteStore] | None = None
        self._opening = Lock()
        self._closed = False
        self._next_dead_check_ms = 0
        """The time on the lease clock from which a claim without result looks for dead owners
        again."""

    @property
    def url(self) -> str:
        return str(self._file.path)

    @property
    def shared(self) -> bool:
        return True

    async def open(self) -> None:
        self._closed = False
        await self._running()

    async def close(self) -> None:
        self._closed = True
        if self._parts is not None:
            # The watch is a task of this event loop. Everything else is closed in a thread, because
            # closing blocks, and a thread must not touch tasks.
            await self._parts.watch.stop()
        if self._parts is not None or self._opening.locked():
            await in_own_thread(self._close, name="ekiden-sqlite-close")

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def info(self) -> Mapping[str, Any]:
        return await self._read(self._info)

    async def place(self) -> str:
        """The identity of the file, which does not depend on the file name. A copy of the file has
        a different identity."""
        return await self._read(lambda _: str(self._file.path.stat().st_ino))

    async def now_us(self) -> int:
        return (self._parts or await self._running()).clock.now_us()

    async def check_writable(self) -> None:
        def try_it(db: apsw.Connection, _: TransactionTime) -> None:
            check_in_place(db, self._file.path)
            db.execute("UPDATE machine SET boot = boot")

        await self._write(try_it)

    async def write(self, batch: Batch) -> Written:
        prepared = journal.PreparedBatch(batch, self._clock.now_us())
        return await self._write(lambda db, now: journal.write_batch(db, prepared, now))

    # Sessions

    async def create(self, new: NewSession) -> None:
        now_us, meta = self._clock.now_us(), sessions.meta_text(new)
        await self._write(lambda db, _: sessions.create_session(db, new, meta, now_us))

    async def get(self, session_id: str) -> SessionRow:
        return await self._read(
            lambda db: sessions.read_session(db, session_id, self._now_ms()), quick=True
        )

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        return await self._read(
            lambda db: sessions.read_page(db, where, limit, cursor, self._now_ms())
        )

    async def delete(self, session_id: str) -> None:
        await self._write(lambda db, now: sessions.delete_session(db, session_id, now.ms))

    # Leases

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        now_us = self._clock.now_us()
        meta = None if create is None else sessions.meta_text(create)

        def take(db: apsw.Connection, now: TransactionTime) -> tuple[Claim, SessionRow]:
            if create is not None:
                made = sessions.claim_new(
                    db, create, meta, owner=owner, lease_s=lease_s, now_us=now_us, now_ms=now.ms
                )
                if made is not None:
                    return made
            return sessions.claim_stored(
                db, session_id, owner=owner, lease_s=lease_s, now_ms=now.ms
            )

        return await _claimed((await self._running()).writer, take)

    async def claim_next(
        self, *, owner: str, lease_s: float, agents: Collection[str] | None = None
    ) -> tuple[Claim, SessionRow] | None:
        def take(db: apsw.Connection, now: TransactionTime) -> tuple[Claim, SessionRow] | None:
            claim = partial(
                sessions.claim_ready, db, owner=owner, lease_s=lease_s, now_ms=now.ms, agents=agents
            )
            found = claim()
            if found is None and now.ms >= self._next_dead_check_ms:
                # Idle workers claim several times a second without result. To check the owners'
                # processes each time would cost more than the claims.
                self._next_dead_check_ms = now.ms + int(DEAD_CHECK_S * 1000)
                if sessions.free_ready_of_dead(db):
                    found = claim()
            return found

        return await _claimed((await self._running()).writer, take)

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return await self._write(lambda db, now: sessions.renew_claims(db, claims, now.ms))

    async def release(self, claim: Claim) -> None:
        await self._write(lambda db, _: sessions.release_claim(db, claim))

    async def wait_for_change(
        self, timeout_s: float, *, about: Collection[str] | None = None
    ) -> None:
        await (await self._running()).watch.wait(timeout_s)

    async def wait_for_ready(
        self, agents: Collection[str], timeout_s: float, *, has_room: Callable[[], bool]
    ) -> None:
        await self.wait_for_change(min(timeout_s, LAPSE_S))

    # Journal

    def commit(self, claim: Claim, commit: Commit) -> Awaitable[None]:
        """Like `Journal.commit`. If the store is open, the commit is also made if you do not await
        it."""
        if self._parts is None:
            return self._commit_once_open(claim, commit)
        prepared = journal.PreparedCommit(claim, commit, self._clock.now_us())
        return self._parts.writer.commit(prepared)

    async def _commit_once_open(self, claim: Claim, commit: Commit) -> None:
        await self._running()
        await self.commit(claim, commit)

    async def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        with_items: bool = False,
    ) -> Sequence[Event]:
        return await self._read(
            lambda db: journal.read_events(db, session_id, after, limit, with_items)
        )

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        return await self._read(lambda db: journal.read_digests(db, session_id, after, limit))

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        return await self._read(lambda db: journal.find_events(db, where, limit, cursor))

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        return await self._read(lambda db: journal.read_feed(db, after, limit))

    async def feed_end(self) -> str:
        return await self._read(journal.read_feed_end)

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        return await self._read(lambda db: journal.read_steps(db, session_id, prefix))

    # Documents

    async def get_document(self, collection: str, key: str) -> Document | None:
        return await self._read(lambda db: sessions.read_document(db, collection, key), quick=True)

    async def write_documents(
        self, writes: Sequence[DocumentWrite], *, silently: bool = False
    ) -> None:
        prepared = sessions.prepare_documents(writes, self._clock.now_us())
        await self._write(lambda db, _: sessions.write_documents(db, prepared))

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        return await self._read(
            lambda db: sessions.read_documents(db, collection, prefix, after, limit)
        )

    # Queues

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        prepared = queues.prepare_puts(messages)
        return await (self._parts or await self._running()).writer.put(prepared)

    def start_put(
        self, messages: Sequence[QueuePut], ended: Callable[[], None]
    ) -> asyncio.Future[Sequence[PutReceipt]]:
        if self._parts is None:
            return _started(self.put_messages(messages), ended)
        return self._parts.writer.put(queues.prepare_puts(messages), ended)

    async def take_messages(
        self,
        queue: str,
        *,
        owner: str,
        lease_s: float,
        limit: int = 1,
        oldest_first: bool = False,
    ) -> Sequence[QueueMessage]:
        lease_ms = int(lease_s * 1000)
        return await self._write(
            lambda db, now: queues.take_messages(
                db,
                queue,
                owner=owner,
                lease_ms=lease_ms,
                limit=limit,
                oldest_first=oldest_first,
                now=now,
            )
        )

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        prepared = settle.prepare_settles(settles)
        return await (self._parts or await self._running()).writer.settle(prepared)

    def start_settle(
        self, settles: Sequence[MessageSettle], ended: Callable[[], None]
    ) -> asyncio.Future[Sequence[Settled]]:
        if self._parts is None:
            return _started(self.settle_messages(settles), ended)
        return self._parts.writer.settle(settle.prepare_settles(settles), ended)

    async def find_messages(
        self, where: MessageFilter = MessageFilter(), *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredMessage]:
        await self._expire_messages()
        return await self._read(
            lambda db: queues.find_messages(db, where, after, limit), quick=queues.is_quick(where)
        )

    async def requeue_messages(self, keys: Collection[str]) -> int:
        return await self._write(lambda db, now: settle.requeue_messages(db, keys, now))

    async def prune_messages(self, *, before_us: int, limit: int = 1000) -> int:
        return await self._write(lambda db, _: settle.prune_messages(db, before_us, limit))

    async def ack_message(self, message: QueueMessage) -> bool:
        return await self._write(lambda db, _: queues.ack_message(db, message))

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        delay_ms = int(delay_s * 1000)
        return await self._write(
            lambda db, now: queues.release_message(db, message, delay_ms, now.ms)
        )

    async def queue_depth(self, queue: str) -> int:
        await self._expire_messages()
        return await self._read(lambda db: queues.read_depth(db, queue))

    # Internal

    async def _expire_messages(self) -> None:
        """Settle expired messages, even if no agent serves their queues.

        In a read-only store they stay as they are.
        """
        if (self._parts or await self._running()).is_read_only:
            return
        now_ms = self._file.lease_clock.now_ms()
        if await self._read(lambda db: queues.has_expired(db, now_ms), quick=True):
            await self._write(queues.expire_messages)

    async def _running(self) -> OpenStore:
        """The parts of the open store; opens it unless it was closed."""
        while self._parts is None:
            if self._closed:
                raise closed_store(self.url)
            await in_own_thread(self._open, name="ekiden-sqlite-open")
        return self._parts

    async def _read(self, read: Read[T], *, quick: bool = False) -> T:
        return await (self._parts or await self._running()).readers.read(read, quick=quick)

    async def _write(self, work: Work[T]) -> T:
        return await (self._parts or await self._running()).writer.submit(work)

    def _open(self) -> None:
        """Open the store in a thread. Only the first of several calls does so, and none after
        `close`."""
        with self._opening:
            if self._parts is None and not self._closed:
                self._parts = self._file.open()
                self._unclosed = weakref.finalize(self, _abandon, self._parts, self.url)
                # At the end of the process the operating system closes the file anyway; a warning
                # then would be noise.
                self._unclosed.atexit = False

    def _close(self) -> None:
        """Close the store in a thread."""
        with self._opening:
            parts, self._parts = self._parts, None
            unclosed, self._unclosed = self._unclosed, None
            if unclosed is not None:
                unclosed.detach()
            if parts is not None:
                parts.writer.stop(parts.close_reads)

    def _now_ms(self) -> int:
        """The time that leases are compared with; void leases count as expired."""
        parts = self._parts
        return _LATEST_MS if parts and parts.leases_are_void else self._file.lease_clock.now_ms()

    def _info(self, db: apsw.Connection) -> Mapping[str, Any]:
        ((format_,),) = query(db, "PRAGMA user_version")
        return {
            "engine": "sqlite",
            "version": self._file.engine_version,
            "format": format_,
            "url": self.url,
            "vectors": vector_engine(db),
            **count_tables(db, _COUNTED),
        }


def _abandon(parts: OpenStore, url: str) -> None:
    """End the threads of a store that was garbage-collected without `close`, and warn.

    The collector may run anywhere, so this must not block.
    """
    parts.writer.end(parts.close_reads)
    warnings.warn(
        f"the store {url} was never closed: use `async with`, or `await store.close()`",
        ResourceWarning,
        stacklevel=2,
    )


async def _claimed(writer: Writer, take: Work[T]) -> T:
    """The result of a claim. If the caller is cancelled, the session is released again."""
    taken: list[Claim] = []

    def run(db: apsw.Connection, now: TransactionTime) -> T:
        # The writer may run this twice: with its group, and then alone.
        taken.clear()
        result = take(db, now)
        if isinstance(result, tuple):
            taken.append(result[0])
        return result

    def undo(db: apsw.Connection, _: TransactionTime) -> None:
        for claim in taken:
            sessions.release_claim(db, claim)

    try:
        return await writer.submit(run)
    except asyncio.CancelledError:
        with suppress(StoreUnavailable):
            writer.submit(undo).add_done_callback(lambda done: done.cancelled() or done.exception())
        raise


def _started(write: Coroutine[Any, Any, T], ended: Callable[[], None]) -> asyncio.Future[T]:
    """Start a write to a store that is not open yet."""
    task = asyncio.create_task(write)
    task.add_done_callback(lambda _: ended())
    return asyncio.shield(task)
