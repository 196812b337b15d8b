"""Connections at hand.

The driver's pool makes a task each time a connection is given back, to make sure that nothing of
its last user is left in it. Nothing is left when a call came to its end, so such a connection is
kept, outside of the pool, for whoever is next; all others go through the pool.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

from ekiden.storage.postgres.driver import asyncpg
from ekiden.storage.postgres.errors import FOREIGN

_IDLE_S = 60.0
"""One that nobody needed for so long is closed: who knows what became of its wire."""
_AGE_S = 300.0
"""One that was kept for so long goes through the pool, which renews it after many statements."""
_RELEASE_S = 5.0
"""How long the pool may take to make sure that a connection is in order, or is closed."""


class _Idle(NamedTuple):
    connection: Any
    since: float


class Kept:
    """The connections of one pool, of which at most `size` are in use."""

    def __init__(self, pool: Any, size: int) -> None:
        self.pool = pool
        self._room = asyncio.Semaphore(size)
        self._idle: list[_Idle] = []
        """Those that were used last are taken first."""
        self._out_since: dict[Any, float] = {}
        """By connection, when it left the pool."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self) -> Any:
        """A connection, for `give_back`; raises what the driver raises."""
        await self._room.acquire()
        try:
            while self._idle:
                connection, since = self._idle.pop()
                if _is_open(connection) and self._loop.time() - since <= _IDLE_S:
                    return connection
                self._close_later(connection)
            connection = await self.pool.acquire()
            self._out_since[connection] = self._loop.time()
            return connection
        except BaseException:
            self._room.release()
            raise

    async def give_back(self, connection: Any, *, is_sound: bool) -> None:
        """Whoever took it is done with it; `is_sound` if nothing went wrong meanwhile."""
        try:
            now = self._loop.time()
            is_young = now - self._out_since[connection] <= _AGE_S
            if is_sound and is_young and not self._closed and _is_open(connection):
                self._idle.append(_Idle(connection, now))
                if self._timer is None:
                    self._timer = self._loop.call_later(_IDLE_S, self._close_old)
            else:
                await self._release(connection)
        finally:
            self._room.release()

    async def close(self) -> None:
        """Close all, when those in use are given back."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._idle:
            await self._release(self._idle.pop().connection)
        await asyncio.gather(*self._closing)
        await self.pool.close()

    async def _release(self, connection: Any) -> None:
        """To the pool, which ends a connection that is not in order; never fails."""
        del self._out_since[connection]
        with suppress(*FOREIGN):
            await self.pool.release(connection, timeout=_RELEASE_S)

    def _close_old(self) -> None:
        """Close those that nobody needed, and look again when the next may be as old."""
        oldest = self._loop.time() - _IDLE_S
        while self._idle and self._idle[0].since <= oldest:
            self._close_later(self._idle.pop(0).connection)
        self._timer = None
        if self._idle:
            self._timer = self._loop.call_at(self._idle[0].since + _IDLE_S, self._close_old)

    def _close_later(self, connection: Any) -> None:
        """Close it while others go on."""
        task = self._loop.create_task(self._close(connection))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, connection: Any) -> None:
        with suppress(*FOREIGN):
            await connection.close(timeout=_RELEASE_S)
        await self._release(connection)


def _is_open(connection: Any) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False  # The pool has taken it away.
