"""The one thread that writes, and its group commit.

A durable commit costs one sync of the disk, however much is in it. So all writes that wait when the
thread is free become one transaction: a few statements and one sync for all. If one write fails,
the transaction is rolled back and each write runs alone, so that only the faulty one fails.

The thread competes with the event loop's thread for the GIL, which it releases at every statement:
few statements with many rows are much faster than many statements with one row.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeAlias, TypeVar

import apsw

from ekiden.core.errors import (
    EkidenError,
    QueueFull,
    SessionError,
    StoreDamaged,
    StoreUnavailable,
    UserError,
)
from ekiden.core.faults import fault_point
from ekiden.storage.base import PutReceipt, Settled
from ekiden.storage.sqlite.connection import UNREADABLE, TransactionTime
from ekiden.storage.sqlite.journal import PreparedCommit, write_commits
from ekiden.storage.sqlite.queues import PreparedPut, put_messages
from ekiden.storage.sqlite.settle import SqliteSettle, settle_messages
from ekiden.storage.values import closed_store

T = TypeVar("T")
Work = Callable[[apsw.Connection, TransactionTime], T]
"""A write inside a transaction, at its time. `SessionError` is raised before anything is written,
so that the rest of the group can go on."""

GROUP_LIMIT = 256

_Kind: TypeAlias = Literal["commit", "put", "settle", "work"]


class Writer:
    """Runs writes in the order they come, many in one transaction."""

    def __init__(
        self,
        *,
        connect: Callable[[], apsw.Connection],
        now: Callable[[], TransactionTime],
        translate: Callable[[apsw.Error], StoreUnavailable],
        on_change: Callable[[], None],
        name: str,
    ) -> None:
        """`connect` opens the thread's connection, again after the disk failed; `on_change` is
        called on the event loop's thread after something was stored. None of them may hold the
        store: a store that its thread holds is never collected."""
        self._connect = connect
        self._now = now
        self._translate = translate
        self._on_change = on_change
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._held: _Job | None = None
        self._door = threading.Lock()
        """Held to put a job or the end: nothing comes after the end, so no caller waits forever."""
        self._closed = False
        self._last: Callable[[], None] | None = None
        self._db: apsw.Connection | None = None
        self._thread = threading.Thread(target=self._run, name="ekiden-sqlite-writer", daemon=True)

    def start(self, db: apsw.Connection) -> None:
        """Begin, with a connection that is ready to use."""
        self._db = db
        self._thread.start()

    def end(self, last: Callable[[], None] | None = None) -> None:
        """Let the thread finish what was submitted, call `last`, disconnect and end.

        Does not wait for it; a second call does nothing.
        """
        with self._door:
            if not self._closed:
                self._closed, self._last = True, last
                self._jobs.put(None)

    def stop(self, last: Callable[[], None] | None = None) -> None:
        """`end`, and wait for it; blocks."""
        self.end(last)
        self._thread.join()

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """Run `work` with others; the result comes after it is durable.

        Cancelling the future does not undo the work. `StoreUnavailable` after the end.
        """
        return self._submit(_Job("work", work))

    def commit(self, commit: PreparedCommit) -> asyncio.Future[None]:
        """Write a step of a session, merged with those of other sessions."""
        return self._submit(_Job("commit", commit))

    def put(self, puts: Sequence[PreparedPut]) -> asyncio.Future[Sequence[PutReceipt]]:
        """Put messages, merged with those of others."""
        return self._submit(_Job("put", puts))

    def settle(self, settles: Sequence[SqliteSettle]) -> asyncio.Future[Sequence[Settled]]:
        """Settle messages, merged with the settlements of others."""
        return self._submit(_Job("settle", settles))

    def _submit(self, job: _Job) -> asyncio.Future[Any]:
        with self._door:
            if self._closed:
                raise closed_store(self._name)
            self._jobs.put(job)
        return job.future

    def _run(self) -> None:
        try:
            while self._run_group():
                pass
            if self._last is not None:
                self._last()
        finally:
            if self._db is not None:
                self._db.close(force=True)

    def _run_group(self) -> bool:
        """Whether it was not the end. What was done is not held while the next is waited for."""
        group = self._next_group()
        if group is None:
            return False
        # Claims that find nothing change no row. Without this comparison each of them would wake
        # all waiting tasks, which would claim again.
        before = self._changes()
        self._execute(group)
        self._deliver(group, changed=self._changes() != before)
        return True

    def _next_group(self) -> list[_Job] | None:
        """Wait for a job, then take what else is there; `None` at the end.

        A second commit of one session belongs to the next group: one statement updates a row once.
        """
        # Only the first job is waited for. To wait longer for more of them would make a single
        # write slow; under load others have queued up meanwhile.
        first, self._held = self._held or self._jobs.get(), None
        if first is None:
            return None
        group = [first]
        sessions = {first.what.num} if first.kind == "commit" else set()
        while len(group) < GROUP_LIMIT:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            # The end came while the group was collected: put it back, so that it is found after
            # this group.
            if job is None:
                self._jobs.put(None)
                break
            if job.kind == "commit":
                if job.what.num in sessions:
                    self._held = job
                    break
                sessions.add(job.what.num)
            group.append(job)
        return group

    def _execute(self, group: list[_Job]) -> None:
        """Run the group and note each member's result or error."""
        try:
            self._transaction(group)
            return
        except Exception as exc:
            # A failed disk fails for all. Any other error may be of one member only, and which one
            # is not known: each is tried alone below.
            if len(group) == 1 or not _may_be_one_members(exc):
                for job in group:
                    job.error = self._explain(exc)
                return
        for job in group:
            try:
                self._transaction([job])
            except Exception as exc:
                job.error = self._explain(exc)

    def _transaction(self, group: list[_Job]) -> None:
        if self._db is None:
            self._db = self._connect()
        db = self._db
        try:
            # The lock to write is taken at once: a transaction that reads first and asks for it
            # later fails if another process has written in between.
            db.execute("BEGIN IMMEDIATE")
            _run(db, group, self._now())
            fault_point("store.sqlite.before_commit")
            db.execute("COMMIT")
            fault_point("store.sqlite.after_commit")
        except BaseException as exc:
            self._undo(db, exc)
            raise

    def _undo(self, db: apsw.Connection, exc: BaseException) -> None:
        """Leave the transaction; drop a connection whose disk failed."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            # A rollback that fails leaves the connection in an unknown state: treat it like a
            # failed disk, so that the connection is dropped below.
            exc = apsw.IOError()
        # After a failed sync, SQLite's cached pages may differ from the file. A new connection
        # reads the file again.
        if isinstance(exc, apsw.Error) and not isinstance(exc, _HARMLESS):
            self._db = None
            db.close(force=True)

    def _explain(self, exc: Exception) -> Exception:
        if isinstance(exc, EkidenError):
            return exc
        if isinstance(exc, apsw.Error):
            error: EkidenError = self._translate(exc)
        elif isinstance(exc, UNREADABLE):
            error = StoreDamaged(self._name, exc)
        elif isinstance(exc, UnicodeEncodeError):
            error = UserError(f"a name or key is not valid text: {exc.object[:80]!r}")
        elif isinstance(exc, (TypeError, ValueError, OverflowError)):
            error = UserError(f"this cannot be stored in {self._name}: {exc}")
        else:
            return exc
        error.__cause__ = exc
        return error

    def _changes(self) -> int:
        return 0 if self._db is None else self._db.total_changes()

    def _deliver(self, group: list[_Job], *, changed: bool) -> None:
        """Hand the results over with one wake-up of each event loop, which is nearly always one."""
        loops = {job.loop for job in group}
        for loop in loops:
            mine = group if len(loops) == 1 else [job for job in group if job.loop is loop]
            try:
                loop.call_soon_threadsafe(_resolve, mine, self._on_change if changed else None)
            except RuntimeError:
                continue  # that loop was closed: nobody waits any more


class _Job:
    """A write with a waiting caller."""

    __slots__ = ("error", "future", "kind", "loop", "result", "what")

    def __init__(self, kind: _Kind, what: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.kind = kind
        self.what = what
        self.result: Any = None
        self.error: Exception | None = None


def _run(db: apsw.Connection, group: Sequence[_Job], now: TransactionTime) -> None:
    """Write what the group wants: of each kind all at once, the rest one after the other.

    They were submitted before any of them was done, so that no order among them is promised.
    """
    by_kind: dict[_Kind, list[_Job]] = {"commit": [], "put": [], "settle": [], "work": []}
    for job in group:
        # A job may run a second time, alone, after its group failed.
        job.error = None
        by_kind[job.kind].append(job)
    if by_kind["commit"]:
        write_commits(db, [job.what for job in by_kind["commit"]], now)
    if puts := by_kind["put"]:
        fates = put_messages(db, [job.what for job in puts], now)
        for job, fate in zip(puts, fates, strict=True):
            if isinstance(fate, QueueFull):
                job.error = fate
            else:
                job.result = fate
    if settles := by_kind["settle"]:
        results = iter(settle_messages(db, [each for job in settles for each in job.what], now))
        for job in settles:
            job.result = [next(results) for _ in job.what]
    for job in by_kind["work"]:
        try:
            job.result = job.what(db, now)
        except SessionError as exc:
            job.error = exc


def _resolve(group: list[_Job], on_change: Callable[[], None] | None) -> None:
    for job in group:
        # Its caller was cancelled; the write is stored all the same.
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
    if on_change is not None:
        on_change()


def _may_be_one_members(exc: Exception) -> bool:
    """Whether the others of the group would succeed without the member that raised it.

    A commit that failed on the disk may have been stored all the same: it is not run again.
    """
    return not isinstance(exc, apsw.Error) or isinstance(exc, _ONE_MEMBERS)


_ONE_MEMBERS = (apsw.ConstraintError, apsw.FullError, apsw.MismatchError, apsw.TooBigError)
_HARMLESS = (apsw.BusyError, *_ONE_MEMBERS)
