"""Hints that something changed, in this process and through NOTIFY in all others.

A NOTIFY within a writing transaction would make all writers wait for one lock, so it is sent by
itself, soon afterwards, once for all changes of the last `PAUSE_S`. While changes come without end
the pauses grow to `LONGEST_PAUSE_S`, since each hint makes all who wait look for work. Waiters are
woken at the first change and again at the end of the pause: whoever looked in vain just before the
change, and began to wait just after it, is woken by the second.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any, TypeGuard

from ekiden.core.errors import EkidenError
from ekiden.storage.changes import ChangeSignal
from ekiden.storage.postgres.connection.database import CLOSE_S, Database
from ekiden.storage.postgres.connection.errors import FOREIGN

PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.08

# A hint need not survive a crash: nobody has to wait for the disk.
_NOTIFY = "select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


class Changes:
    """Tells others of our changes, and us of theirs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = f"ekiden:{database.address.schema}"
        self._me = os.urandom(8).hex()
        """Sent along, so that nobody is woken by the echo of its own changes."""
        self._dirty = False
        self._sender: asyncio.Task[None] | None = None
        self._signal = ChangeSignal()
        self._listener: Any = None
        self._starter: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Something was stored just now."""
        self._dirty = True
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def wait(self, timeout_s: float) -> None:
        """Return at the next hint or after the time-out; without a connection, only after that.

        `StoreUnavailable` after the store was closed.
        """
        self._database.refuse_if_closed()
        self._listen()
        await self._signal.wait(timeout_s)

    async def close(self) -> None:
        """Tell others what they have not been told, and stop listening."""
        sender, self._sender = self._sender, None
        if _is_ours(sender):
            await asyncio.wait([sender], timeout=CLOSE_S)
        starter, self._starter = self._starter, None
        if _is_ours(starter):
            starter.cancel()
            await asyncio.wait([starter])
        listener, self._listener = self._listener, None
        if listener is not None and _is_ours(starter):
            try:
                await listener.close(timeout=CLOSE_S)
            except FOREIGN:
                listener.terminate()
        self._signal.notify()

    async def _send(self) -> None:
        pause_s = PAUSE_S
        while self._dirty:
            self._dirty = False
            self._signal.notify()
            with suppress(EkidenError):  # Those who wait find out by their time-out.
                await self._database.query(_NOTIFY, self._channel, self._me)
            await asyncio.sleep(pause_s)
            self._signal.notify()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _listen(self) -> None:
        if _is_ours(self._starter) and (self._listener or not self._starter.done()):
            return
        self._starter = asyncio.get_running_loop().create_task(self._start_listening())

    async def _start_listening(self) -> None:
        self._listener = None
        # If it fails, waiters come back after their time-out, and then it is tried again.
        with suppress(EkidenError, *FOREIGN):
            connection = await self._database.connect()
            try:
                connection.add_termination_listener(self._stopped)
                await connection.add_listener(self._channel, self._heard)
            except BaseException:
                connection.terminate()
                raise
            self._listener = connection
            self._signal.notify()

    def _heard(self, _connection: Any, _pid: int, _channel: str, sender: str) -> None:
        if sender != self._me:
            self._signal.notify()
            asyncio.get_running_loop().call_later(PAUSE_S, self._signal.notify)

    def _stopped(self, connection: Any) -> None:
        if self._listener is connection:
            self._listener = None
            self._signal.notify()


def _is_ours(task: asyncio.Task[None] | None) -> TypeGuard[asyncio.Task[None]]:
    """Whether there is such a task in the loop that runs now, rather than in one that ended."""
    return task is not None and task.get_loop() is asyncio.get_running_loop()
