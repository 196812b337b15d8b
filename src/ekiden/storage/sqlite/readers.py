"""Reads beside the writer, each thread with its own connection, and hints of changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from ekiden.core.errors import StoreDamaged, StoreUnavailable
from ekiden.storage.changes import ChangeSignal
from ekiden.storage.sqlite.connection import UNREADABLE, query
from ekiden.storage.values import closed_store

T = TypeVar("T")
Read = Callable[[apsw.Connection], T]

_THREADS = 2
_TOGETHER = 64


class Readers:
    """Runs reads; in WAL mode they see the last commit and never wait."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        translate: Callable[[apsw.Error], StoreUnavailable],
        name: str,
    ) -> None:
        self._name = name
        self._connect = connect
        self._translate = translate
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._door = threading.Lock()
        """Held to put a job or the end: nothing comes after the end, so no caller waits forever."""
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        """Of the threads that wait; looked at until there are enough threads."""
        self._closed = False

    async def read(self, read: Read[T], *, quick: bool = False) -> T:
        """The result of `read`; failures of the engine, and any after `close`, are
        `StoreUnavailable`. A `quick` one takes so little time that others can wait for it."""
        job = _Job(read, quick)
        with self._door:
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
        """Wait for the reads under way and disconnect; blocks."""
        with self._door:
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
        reader = _Reader(self._connect, self._translate, self._name)
        try:
            while self._run_group(reader):
                pass
        finally:
            reader.disconnect()

    def _run_group(self, reader: _Reader) -> bool:
        """Whether it was not the end. What was done is not held while the next is waited for."""
        done: list[_Job] = []
        try:
            job = self._jobs.get_nowait()
        except Empty:
            self._idle.release()
            job = self._jobs.get()
        while job is not None:
            # The results so far must not wait for a read that may take long.
            if done and not job.quick:
                _deliver(done)
                done = []
            reader.run(job)
            done.append(job)
            if not job.quick or len(done) == _TOGETHER:
                break
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
        _deliver(done)
        # The end is put back for the other threads.
        if job is None:
            self._jobs.put(None)
        return job is not None


class _Job:
    """A read with a waiting caller."""

    __slots__ = ("error", "future", "loop", "quick", "read", "result")

    def __init__(self, read: Read[Any], quick: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.read = read
        self.quick = quick
        self.result: Any = None
        self.error: Exception | None = None


class _Reader:
    """The connection of one thread, anew after every failure."""

    __slots__ = ("_connect", "_db", "_name", "_translate")

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        translate: Callable[[apsw.Error], StoreUnavailable],
        name: str,
    ) -> None:
        self._connect = connect
        self._translate = translate
        self._name = name
        self._db: apsw.Connection | None = None

    def run(self, job: _Job) -> None:
        """Do the read and note its result or error."""
        try:
            if self._db is None:
                self._db = self._connect()
            job.result = job.read(self._db)
        except apsw.Error as exc:
            self.disconnect()
            job.error = self._translate(exc)
            job.error.__cause__ = exc
        except UNREADABLE as exc:
            job.error = StoreDamaged(self._name, exc)
            job.error.__cause__ = exc
        except Exception as exc:
            job.error = exc

    def disconnect(self) -> None:
        """Let go of the file."""
        db, self._db = self._db, None
        if db is not None:
            db.close(force=True)


def _deliver(done: list[_Job]) -> None:
    """Hand the results over with one wake-up of each event loop, which is nearly always one."""
    for loop in {job.loop for job in done}:
        mine = [job for job in done if job.loop is loop]
        with suppress(RuntimeError):  # that loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(done: list[_Job]) -> None:
    for job in done:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


async def in_own_thread(work: Callable[[], T], *, name: str) -> T:
    """The result of `work`, which blocks, from a thread made for it.

    The threads of `asyncio.to_thread` are shared with the program's tools, which may hang in all of
    them. If the caller is cancelled, the work still finishes.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    # Taken out when it is run: a thread that has told its result holds nobody's store any more.
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
"""After so many looks that found nothing it is looked half as often: waiting is to be cheap."""


class FileWatch:
    """A signal for this process, and a look at the file's version while a task waits."""

    def __init__(self, readers: Readers, connect: Callable[[], apsw.Connection]) -> None:
        self._readers = readers
        self._connect = connect
        self._db: apsw.Connection | None = None
        self._version = -1
        self._signal = ChangeSignal()
        self._poll: asyncio.Task[None] | None = None

    def notify(self) -> None:
        """This process changed something."""
        self._signal.notify()

    async def wait(self, timeout_s: float) -> None:
        """Return after a change, or after the time-out."""
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._look(), name="ekiden-sqlite-watch")
        await self._signal.wait(timeout_s)

    async def stop(self) -> None:
        """Stop looking, and end all waits."""
        if self._poll is not None and not self._poll.done():
            self._poll.cancel()
            await asyncio.wait((self._poll,))
        self._signal.notify()

    def close(self) -> None:
        """Disconnect, after the last read."""
        if self._db is not None:
            self._db.close(force=True)
            self._db = None

    async def _look(self) -> None:
        """Compare versions as long as a task waits."""
        in_vain = 0
        while True:
            try:
                version = await self._readers.read(self._read_version)
            except StoreUnavailable:
                version = self._version
            # Counted before the comparison, so that a failed look, too, leads to fewer looks.
            in_vain += 1
            if version != self._version:
                self._version = version
                in_vain = 0
                self._signal.notify()
            if not self._signal.waited_for:
                return
            await asyncio.sleep(_POLL_S if in_vain < _QUIET_AFTER else _QUIET_POLL_S)

    def _read_version(self, _: apsw.Connection) -> int:
        """The version differs from the last one that this connection saw if others wrote."""
        if self._db is None:
            self._db = self._connect()
        ((version,),) = query(self._db, "PRAGMA data_version")
        return int(version)
