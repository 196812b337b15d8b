"""Waiting for a session that waits for people or agents."""

from __future__ import annotations

import asyncio

from ekiden.core.errors import UserError
from ekiden.runtime.driving import is_ready
from ekiden.runtime.timekeeping import run_timers, seconds_to_timer
from ekiden.storage.base import Store

_LOOK_EVERY_S = 1.0
"""After so long the store is looked into, whether it told of a change or not."""


async def until_ready(store: Store, session_id: str, *, timeout_s: float | None = None) -> None:
    """Return when the session can go on; `TimeoutError`, and `UserError` if it does not wait."""
    row = await store.get(session_id)
    if row.status == "idle":
        raise UserError(f"session {session_id!r} waits for nobody: send it a message, or resume it")
    async with asyncio.timeout(timeout_s):
        while not await is_ready(store, session_id):
            if not await run_timers(store):
                await store.wait_for_change(await seconds_to_timer(store, _LOOK_EVERY_S))
