"""Reads beside the writer: a few threads, each with its own connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.values import closed_store

T = TypeVar("T")
Read = Callable[[apsw.Connection], T]

_THREADS = 2


class Readers:
    """Runs reads; in WAL mode they see the last commit and wait for nobody."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        translate: Callable[[apsw.Error], StoreUnavailable],
        name: str,
    ) -> None:
        self._name = name
        self._connect = connect
        self._translate = translate
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ekiden-sqlite-reader")
        self._own = threading.local()
        self._all: list[apsw.Connection] = []
        self._closed = False

    async def read(self, read: Read[T]) -> T:
        """The result of `read`; failures of the engine, and any after `close`, are
        `StoreUnavailable`."""
        loop = asyncio.get_running_loop()
        try:
            reading = loop.run_in_executor(self._threads, self._run, read)
        except RuntimeError as exc:
            if self._closed:
                raise closed_store(self._name) from exc
            raise StoreUnavailable(f"{self._name} cannot be read now: {exc}") from exc
        return await reading

    def close(self) -> None:
        """Wait for the reads under way and disconnect; blocks."""
        self._closed = True
        self._threads.shutdown()
        for db in self._all:
            db.close(force=True)

    def _run(self, read: Read[T]) -> T:
        try:
            db: apsw.Connection | None = getattr(self._own, "db", None)
            if db is None:
                db = self._own.db = self._connect()
                self._all.append(db)
            return read(db)
        except apsw.Error as exc:
            self._forget()
            raise self._translate(exc) from exc

    def _forget(self) -> None:
        """Let the next read of this thread connect anew."""
        db = getattr(self._own, "db", None)
        self._own.db = None
        if db is not None:
            self._all.remove(db)
            db.close(force=True)
