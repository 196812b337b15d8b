"""Finding out what became of a write whose connection broke."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.postgres.database import Database
from ekiden.storage.postgres.errors import ConnectionLost, OutcomeUnknown

T = TypeVar("T")

SETTLE_S = 15.0
"""How long a write whose connection broke is sent again until the database answers."""
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5


async def answered(
    database: Database,
    send: Callable[[bool], Awaitable[T]],
    unknown: Callable[[str], OutcomeUnknown],
) -> T:
    """What `send` returns, which is called until the database answers.

    It is told whether a copy was sent before whose fate is not known, and must make sure that this
    one then changes nothing twice. After `SETTLE_S`, or when the store is closed, it is over with
    the error that `unknown` makes of the reason. What could not be sent at all is not sent again.
    """
    try:
        return await send(False)
    except ConnectionLost:
        pass
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_S
    pause = _FIRST_PAUSE_S
    while True:
        try:
            return await send(True)
        except OutcomeUnknown:
            raise
        except StoreUnavailable as exc:
            if database.closed or loop.time() + pause > deadline:
                raise unknown(str(exc)) from exc
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
