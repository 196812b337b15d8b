"""Commits of several sessions as one statement, when they come faster than the disk takes them.

A few commits are under way at a time. Those that come meanwhile wait, and go together when one of
the others is done: sent in one piece, and written to the disk once. What can be said of a commit is
not changed by that. A gathering is stored as a whole or not at all; one whose session somebody else
has locked, or that does not fit what is stored, is left out, and is then tried alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, NamedTuple

from ekiden.core.errors import EkidenError
from ekiden.storage.postgres.commit_sql import COMMIT_TOGETHER, Parcel, together
from ekiden.storage.postgres.database import ANSWER_S, Database
from ekiden.storage.postgres.errors import ConnectionLost

_LANES = 2
"""How many are under way at a time; with four, fewer go together, and a step costs a tenth more."""
_MOST = 50
"""How many go together."""
_PATIENCE_S = 0.05
"""Whoever has had no answer for so long holds up nobody any more, but still waits for it."""


class _Waiting(NamedTuple):
    parcel: Parcel
    stored: asyncio.Future[bool]


class Gathering:
    """The commits of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[_Waiting] = []
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def store(self, parcel: Parcel, alone: Callable[[bool], Awaitable[bool]]) -> bool:
        """Whether it was stored, with others or by `alone`.

        `alone` is told whether to wait if somebody has the session locked; its answer when it
        waits counts. `ConnectionLost` if nobody knows whether it was stored.
        """
        loop = self._database.own_loop()
        if self._loop is not loop:
            self._loop, self._waiting, self._under_way = loop, [], 0
        if self._under_way < _LANES:
            give_back = self._lane(loop)
            try:
                stored = await alone(False)
            finally:
                give_back()
        else:
            waiting = _Waiting(parcel, loop.create_future())
            self._waiting.append(waiting)
            stored = await waiting.stored
        return stored or await alone(True)

    def _lane(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Take a lane; it is free again once that is called, or after `_PATIENCE_S`."""
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            timer.cancel()
            if is_held and self._loop is loop:
                self._under_way -= 1
                self._next(loop)
            is_held = False

        self._under_way += 1
        timer = loop.call_later(_PATIENCE_S, give_back)
        return give_back

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send those who wait, at most one commit of each session."""
        chosen: dict[int, _Waiting] = {}
        later: list[_Waiting] = []
        for each in self._waiting:
            if each.stored.done():
                continue
            if len(chosen) == _MOST or each.parcel.num in chosen:
                later.append(each)
            else:
                chosen[each.parcel.num] = each
        self._waiting = later
        if chosen:
            task = loop.create_task(self._send(list(chosen.values()), self._lane(loop)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, chosen: list[_Waiting], give_back: Callable[[], None]) -> None:
        failure: ConnectionLost | None = ConnectionLost("the commit was broken off")
        stored: Collection[int] = ()
        try:
            stored = await self._store([each.parcel for each in chosen])
            failure = None
        except ConnectionLost as exc:
            failure = exc
        except EkidenError:
            failure = None  # Nothing was stored; each is told by itself what is wrong with it.
        finally:
            for each in chosen:
                if each.stored.done():
                    continue
                if failure is None:
                    each.stored.set_result(each.parcel.token in stored)
                else:
                    each.stored.set_exception(ConnectionLost(str(failure)))
            give_back()

    async def _store(self, parcels: Sequence[Parcel]) -> Collection[int]:
        """The tokens of those that are stored."""
        args = together(parcels)

        async def work(connection: Any) -> set[int]:
            rows = await connection.fetch(COMMIT_TOGETHER, *args, timeout=ANSWER_S)
            return {row[0] for row in rows}

        return await self._database.run(work)
