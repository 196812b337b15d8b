"""Hints of changes, from this process and from others on the same file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import apsw

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.changes import ChangeSignal
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.readers import Readers

_POLL_S = 0.025
_QUIET_POLL_S = 0.05
_QUIET_AFTER = 40
"""After so many looks that found nothing it is looked half as often: waiting is to be cheap."""


class FileWatch:
    """A signal for this process, and a look at the file's version while somebody waits."""

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
        """Look no more, and let those who wait go."""
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
        """Compare versions as long as somebody waits."""
        in_vain = 0
        while True:
            try:
                version = await self._readers.read(self._read_version)
            except StoreUnavailable:
                version = self._version
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
