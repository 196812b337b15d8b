"""Reader threads with their own connections, and wake-ups after changes of the file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from ekiden.core.errors import StoreDamaged, StoreUnavailable
from ekiden.storage.sqlite.connection import UNREADABLE, query
from ekiden.storage.timers import ChangeSignal
from ekiden.storage.values import closed_store

T = TypeVar("T")
Read = Callable[[apsw.Connection], T]

_THREADS = 2
_MAX_GROUP = 64
"""The number of quick reads whose results are delivered together, at most."""


class Job:
    """Work of a thread for a caller in an event loop."""

    __slots__ = ("ended", "error", "future", "loop", "result", "work")

    def __init__(self, work: Any, ended: Callable[[], None] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.work = work
        self.ended = ended
        """Called in the event loop at the end of the work, even if the caller was cancelled."""
        self.result: Any = None
        self.error: Exception | None = None


def deliver(done: Sequence[Job], then: Callable[[], None] | None = None) -> None:
    """Return the results to the callers, and call `then` in each event loop.

    Each loop, of which there is nearly always one, is woken once: a wake-up for each result would
    cost more than most reads.
    """
    loops = {job.loop for job in done}
    for loop in loops:
        its_jobs = done if len(loops) == 1 else [job for job in done if job.loop is loop]
        with suppress(RuntimeError):  # The loop was closed: its callers no longer wait.
            loop.call_soon_threadsafe(_resolve, its_jobs, then)


def _resolve(done: Sequence[Job], then: Callable[[], None] | None) -> None:
    for job in done:
        if job.ended is not None:
            job.ended()
        # The caller was cancelled; a write is stored all the same.
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
    if then is not None:
        then()


class Readers:
    """Runs reads in threads; in WAL mode reads see the last commit and never wait."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        check: Callable[[apsw.Connection], None],
        translate: Callable[[apsw.Error], StoreUnavailable],
        name: str,
    ) -> None:
        """`check` is called after a read that saw changes by others, and raises if the format of
        the file has changed."""
        self._name = name
        self._connect = connect
        self._check = check
        self._translate = translate
        self._jobs: SimpleQueue[_ReadJob | None] = SimpleQueue()
        """`None` ends the threads."""
        self._put_lock = threading.Lock()
        """Held to put a job or the end: no job comes after the end, so no caller waits forever."""
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        """Counts the idle threads, until there are enough threads."""
        self._closed = False

    async def read(self, read: Read[T], *, quick: bool = False) -> T:
        """The result of `read`. Raises `StoreUnavailable` if the engine fails, and after `close`.

        A `quick` read takes so little time that the results of others may wait for it.
        """
        job = _ReadJob(read, quick)
        with self._put_lock:
            if self._closed:
                raise closed_store(self._name)
            # A thread and its connection are made only when all others are busy: many programs need
            # one.
            if len(self._threads) < _THREADS and not self._idle.acquire(blocking=False):
                self._start()
            self._jobs.put(job)
        result: T = await job.future
        return result

    def close(self) -> None:
        """Wait for the current reads and disconnect; blocks."""
        with self._put_lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        name = f"ekiden-sqlite-reader_{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as exc:
            if not self._threads:
                raise StoreUnavailable(f"{self._name} cannot be read now: {exc}") from exc
        else:
            self._threads.append(thread)

    def _run(self) -> None:
        reader = _Reader(self._connect, self._check, self._translate, self._name)
        try:
            while self._run_group(reader):
                pass
        finally:
            reader.disconnect()

    def _run_group(self, reader: _Reader) -> bool:
        """Wait for a job and run it, with quick ones that follow; returns false at the end.

        A method of its own, so that finished jobs, and the stores they refer to, are not kept alive
        while the thread waits.
        """
        done: list[_ReadJob] = []
        try:
            job = self._jobs.get_nowait()
        except Empty:
            self._idle.release()
            job = self._jobs.get()
        while job is not None:
            # The results so far must not wait for a read that may take long.
            if done and not job.is_quick:
                deliver(done)
                done = []
            reader.run(job)
            done.append(job)
            if not job.is_quick or len(done) == _MAX_GROUP:
                break
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
        deliver(done)
        # The end is put back for the other threads.
        if job is None:
            self._jobs.put(None)
        return job is not None


class _ReadJob(Job):
    """A read for a waiting caller."""

    __slots__ = ("is_quick",)

    def __init__(self, read: Read[Any], is_quick: bool) -> None:
        super().__init__(read)
        self.is_quick = is_quick


class _Reader:
    """The connection of one thread, which is replaced after every failure."""

    __slots__ = ("_check", "_connect", "_db", "_name", "_translate", "_version")

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        check: Callable[[apsw.Connection], None],
        translate: Callable[[apsw.Error], StoreUnavailable],
        name: str,
    ) -> None:
        self._connect = connect
        self._check = check
        self._translate = translate
        self._name = name
        self._db: apsw.Connection | None = None
        self._version = -1
        """The version of the file at the last check."""

    def run(self, job: _ReadJob) -> None:
        """Run the read and set its result or error."""
        try:
            if self._db is None:
                self._db = self._connect()
            try:
                job.result = job.work(self._db)
            finally:
                # Also after an error, which may be that of a statement for tables of our format.
                self._check_format(self._db)
        except apsw.Error as exc:
            self.disconnect()
            job.error = self._translate(exc)
            job.error.__cause__ = exc
        except UNREADABLE as exc:
            job.error = StoreDamaged(self._name, exc)
            job.error.__cause__ = exc
        except Exception as exc:
            job.error = exc

    def _check_format(self, db: apsw.Connection) -> None:
        version = db.data_version()
        if version != self._version:
            self._check(db)
            self._version = version

    def disconnect(self) -> None:
        """Close the connection."""
        db, self._db, self._version = self._db, None, -1
        if db is not None:
            db.close(force=True)


async def in_own_thread(work: Callable[[], T], *, name: str) -> T:
    """Run the blocking `work` in a new thread and return its result.

    The threads of `asyncio.to_thread` are shared with the program's tools, which may block all of
    them. If the caller is cancelled, the work still finishes.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    # A list, which the thread empties: otherwise the thread would keep the store alive until it
    # ends, after the caller has the result.
    todo = [work]

    def run() -> None:
        try:
            result = todo.pop()()
        except BaseException as exc:
            done.set_exception(exc)
        else:
            done.set_result(result)

    threading.Thread(target=run, name=name).start()
    return await asyncio.wrap_future(done)


_POLL_S = 0.025
_QUIET_POLL_S = 0.05
_QUIET_AFTER = 40
"""After this many polls without a change, `_QUIET_POLL_S` is used, which costs half as much."""


class FileWatch:
    """Wakes waiting tasks after changes by this process, and polls for changes by others."""

    def __init__(self, readers: Readers, connect: Callable[[], apsw.Connection]) -> None:
        self._readers = readers
        self._connect = connect
        self._db: apsw.Connection | None = None
        self._version = -1
        self._signal = ChangeSignal()
        self._poll: asyncio.Task[None] | None = None

    def notify(self) -> None:
        """Wake the waiting tasks: this process changed something."""
        self._signal.notify()

    async def wait(self, timeout_s: float) -> None:
        """Return after a change, or after the time-out."""
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._poll_version(), name="ekiden-sqlite-watch")
        await self._signal.wait(timeout_s)

    async def stop(self) -> None:
        """Stop polling, and end all waits."""
        if self._poll is not None and not self._poll.done():
            self._poll.cancel()
            await asyncio.wait((self._poll,))
        self._signal.notify()

    def close(self) -> None:
        """Disconnect, after the last read."""
        if self._db is not None:
            self._db.close(force=True)
            self._db = None

    async def _poll_version(self) -> None:
        """Compare the file's versions as long as a task waits."""
        polls_without_change = 0
        while True:
            try:
                version = await self._readers.read(self._read_version)
            except StoreUnavailable:
                version = self._version
            polls_without_change += 1  # A failed read counts as one.
            if version != self._version:
                self._version = version
                polls_without_change = 0
                self._signal.notify()
            if not self._signal.has_waiters:
                return
            is_quiet = polls_without_change >= _QUIET_AFTER
            await asyncio.sleep(_QUIET_POLL_S if is_quiet else _POLL_S)

    def _read_version(self, _: apsw.Connection) -> int:
        """The version of the file. It changes for this connection if any other connection writes,
        so the connection is used for nothing else."""
        if self._db is None:
            self._db = self._connect()
        ((version,),) = query(self._db, "PRAGMA data_version")
        return int(version)
