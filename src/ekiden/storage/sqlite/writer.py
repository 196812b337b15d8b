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
from ekiden.storage.sqlite.readers import Job, deliver
from ekiden.storage.sqlite.settle import SqliteSettle, settle_messages
from ekiden.storage.values import closed_store

T = TypeVar("T")
Work = Callable[[apsw.Connection, TransactionTime], T]
"""A write inside a transaction, at the transaction's time. It must raise a `SessionError` before it
writes anything, because the rest of the group is still committed."""

GROUP_LIMIT = 256
"""The number of jobs in one transaction, at most."""

_Kind: TypeAlias = Literal["commit", "put", "settle", "work"]


class Writer:
    """Runs writes in the order they come, many in one transaction."""

    def __init__(
        self,
        *,
        connect: Callable[[], apsw.Connection],
        check: Callable[[apsw.Connection], None],
        now: Callable[[], TransactionTime],
        translate: Callable[[apsw.Error], StoreUnavailable],
        on_change: Callable[[], None],
        name: str,
    ) -> None:
        """`connect` opens the thread's connection, and again after the disk failed. `check` is
        called in each transaction, and raises if the format of the file has changed.

        `on_change` is called in the event loop's thread after something was stored. None of them
        may refer to the store: then its thread would keep it alive, and it would never be
        collected.
        """
        self._connect = connect
        self._check = check
        self._now = now
        self._translate = translate
        self._on_change = on_change
        self._name = name
        self._jobs: SimpleQueue[_WriteJob | None] = SimpleQueue()
        """`None` ends the thread."""
        self._held: _WriteJob | None = None
        """The first job of the next group."""
        self._put_lock = threading.Lock()
        """Held to put a job or the end: no job comes after the end, so no caller waits forever."""
        self._closed = False
        self._last: Callable[[], None] | None = None
        self._db: apsw.Connection | None = None
        """`None` after the disk failed."""
        self._thread = threading.Thread(target=self._run, name="ekiden-sqlite-writer", daemon=True)

    def start(self, db: apsw.Connection) -> None:
        """Begin, with a connection that is ready to use."""
        self._db = db
        self._thread.start()

    def end(self, last: Callable[[], None] | None = None) -> None:
        """Let the thread finish the submitted jobs, call `last`, disconnect and end.

        Returns at once; a second call does nothing.
        """
        with self._put_lock:
            if not self._closed:
                self._closed, self._last = True, last
                self._jobs.put(None)

    def stop(self, last: Callable[[], None] | None = None) -> None:
        """`end`, and wait for the thread; blocks."""
        self.end(last)
        self._thread.join()

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """Run `work` in a transaction with other jobs; the result is returned when it is durable.

        Cancelling the future does not undo the work. Raises `StoreUnavailable` after the end.
        """
        return self._submit(_WriteJob("work", work))

    def commit(self, commit: PreparedCommit) -> asyncio.Future[None]:
        """Write a step of a session, with the same statements as those of other sessions."""
        return self._submit(_WriteJob("commit", commit))

    def put(
        self, puts: Sequence[PreparedPut], ended: Callable[[], None] | None = None
    ) -> asyncio.Future[Sequence[PutReceipt]]:
        """Put messages, with the same statements as those of other callers."""
        return self._submit(_WriteJob("put", puts, ended))

    def settle(
        self, settles: Sequence[SqliteSettle], ended: Callable[[], None] | None = None
    ) -> asyncio.Future[Sequence[Settled]]:
        """Settle messages, with the same statements as those of other callers."""
        return self._submit(_WriteJob("settle", settles, ended))

    def _submit(self, job: _WriteJob) -> asyncio.Future[Any]:
        with self._put_lock:
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
        """Wait for a group of jobs and run it; returns false at the end.

        A method of its own, so that finished jobs, and the stores they refer to, are not kept alive
        while the thread waits.
        """
        group = self._next_group()
        if group is None:
            return False
        # Claims that find nothing change no row. Without this comparison each of them would wake
        # all waiting tasks, which would claim again.
        before = self._changes()
        self._execute(group)
        deliver(group, self._on_change if self._changes() != before else None)
        return True

    def _next_group(self) -> list[_WriteJob] | None:
        """Wait for a job, then take the other jobs in the queue; `None` at the end.

        A second commit of one session starts the next group, because one statement updates a row
        only once.
        """
        # Only the first job is waited for. To wait longer for more of them would make a single
        # write slow; under load others have queued up meanwhile.
        first, self._held = self._held or self._jobs.get(), None
        if first is None:
            return None
        group = [first]
        sessions = {first.work.num} if first.kind == "commit" else set()
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
                if job.work.num in sessions:
                    self._held = job
                    break
                sessions.add(job.work.num)
            group.append(job)
        return group

    def _execute(self, group: list[_WriteJob]) -> None:
        """Run the group and set the result or error of each job."""
        try:
            self._transaction(group)
            return
        except Exception as exc:
            # A failed disk fails all jobs. Any other error may be that of one job, and which one is
            # not known: each is tried alone below.
            if len(group) == 1 or not _may_be_of_one_job(exc):
                for job in group:
                    job.error = self._explain(exc)
                return
        for job in group:
            try:
                self._transaction([job])
            except Exception as exc:
                job.error = self._explain(exc)

    def _transaction(self, group: list[_WriteJob]) -> None:
        if self._db is None:
            self._db = self._connect()
        db = self._db
        try:
            # Not `write_transaction`: the rollback, too, may fail with the disk.
            db.execute("BEGIN IMMEDIATE")
            self._check(db)
            _run_jobs(db, group, self._now())
            fault_point("store.sqlite.before_commit")
            db.execute("COMMIT")
            fault_point("store.sqlite.after_commit")
        except BaseException as exc:
            self._undo(db, exc)
            raise

    def _undo(self, db: apsw.Connection, exc: BaseException) -> None:
        """Roll the transaction back; drop the connection if the disk failed."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            # A rollback that fails leaves the connection in an unknown state: treat it like a
            # failed disk, so that the connection is dropped below.
            exc = apsw.IOError()
        # After a failed sync, SQLite's cached pages may differ from the file. A new connection
        # reads the file again.
        if isinstance(exc, apsw.Error) and not isinstance(exc, _CONNECTION_IS_SOUND):
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


class _WriteJob(Job):
    """A write for a waiting caller."""

    __slots__ = ("kind",)

    def __init__(self, kind: _Kind, work: Any, ended: Callable[[], None] | None = None) -> None:
        super().__init__(work, ended)
        self.kind = kind


def _run_jobs(db: apsw.Connection, group: Sequence[_WriteJob], now: TransactionTime) -> None:
    """Run the jobs of each kind together; those of kind `work` one after the other.

    All jobs were submitted before one of them was done, so their order is free.
    """
    by_kind: dict[_Kind, list[_WriteJob]] = {"commit": [], "put": [], "settle": [], "work": []}
    for job in group:
        # A job may run a second time, alone, after its group failed.
        job.error = None
        by_kind[job.kind].append(job)
    if by_kind["commit"]:
        write_commits(db, [job.work for job in by_kind["commit"]], now)
    if puts := by_kind["put"]:
        receipts = put_messages(db, [job.work for job in puts], now)
        for job, result in zip(puts, receipts, strict=True):
            if isinstance(result, QueueFull):
                job.error = result
            else:
                job.result = result
    if settles := by_kind["settle"]:
        results = iter(settle_messages(db, [each for job in settles for each in job.work], now))
        for job in settles:
            job.result = [next(results) for _ in job.work]
    for job in by_kind["work"]:
        try:
            job.result = job.work(db, now)
        except SessionError as exc:
            job.error = exc


def _may_be_of_one_job(exc: Exception) -> bool:
    """Whether the rest of the group may succeed without the job that raised the error.

    A commit that failed on the disk may have been stored all the same: it is not run again.
    """
    return not isinstance(exc, apsw.Error) or isinstance(exc, _ERRORS_OF_ONE_JOB)


_ERRORS_OF_ONE_JOB = (apsw.ConstraintError, apsw.FullError, apsw.MismatchError, apsw.TooBigError)
_CONNECTION_IS_SOUND = (apsw.BusyError, *_ERRORS_OF_ONE_JOB)
