"""Waiting for a session that waits for people or agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from ekiden.core.errors import SessionBusy, StoreUnavailable, UserError
from ekiden.runtime.config import RunConfig
from ekiden.runtime.driving import is_ready
from ekiden.runtime.opening import claimed
from ekiden.runtime.timekeeping import run_timers, seconds_to_timer
from ekiden.runtime.withdrawing import is_left
from ekiden.storage.base import Claim, SessionRow, Store

_log = logging.getLogger("ekiden.runtime")

_LOOK_EVERY_S = 1.0
"""After so long the store is looked into, whether it told of a change or not."""
_REST_S = 0.5
"""How long to leave alone what cannot be had: the store, or a session that somebody has."""


async def check_waits(store: Store, session_id: str) -> None:
    """`UserError` if the session does not wait."""
    if (await store.get(session_id)).status == "idle":
        raise UserError(f"session {session_id!r} waits for nobody: send it a message, or resume it")


async def until_ready(
    store: Store,
    session_id: str,
    *,
    timeout_s: float | None = None,
    on_outage: Callable[[StoreUnavailable], None] | None = None,
) -> SessionRow | None:
    """Return when the session can go on; its row, if somebody else took it to an outcome.

    A store that cannot be reached meanwhile is waited for, too; `on_outage` is told at each try,
    and the log without it. `TimeoutError`.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                row = await store.get(session_id)
                if _is_over(row):
                    return row
                if await is_ready(store, session_id):
                    return None
                if not await run_timers(store):
                    await store.wait_for_change(await seconds_to_timer(store, _LOOK_EVERY_S))
            except StoreUnavailable as exc:
                if on_outage is None:
                    _log.warning("session %s is waited for, trying again: %s", session_id, exc)
                else:
                    on_outage(exc)
                await asyncio.sleep(_REST_S)


async def taken_if_free(
    store: Store, session_id: str, config: RunConfig
) -> tuple[Claim, SessionRow] | None:
    """Take the session; `None` if somebody else was quicker, or the store cannot be reached."""
    try:
        claim, row = await claimed(store, session_id, replace(config, on_busy="refuse"))
        if not _is_over(row):
            return claim, row
        await store.release(claim)
    except (SessionBusy, StoreUnavailable):
        await asyncio.sleep(_REST_S)
    return None


def _is_over(row: SessionRow) -> bool:
    """Whether its run came to an outcome for which nobody has to be waited."""
    return row.status == "idle" and not is_left(row)
