"""Keeping time for a store: what is due is done, however busy the worker is with sessions."""

from __future__ import annotations

import asyncio
import logging

from ekiden.core.errors import StoreError
from ekiden.runtime.questions.timekeeping import run_timers, seconds_to_timer
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.worker")

TIMERS_S = 0.5
"""After so long timers are looked at, if none is due before."""


class Timekeeping:
    """Time-outs of questions, deadlines of what people are asked; any number of processes may."""

    def __init__(self, store: Store, *, rarely: bool = False) -> None:
        """`rarely`: there are many stores, and each is looked at less often."""
        self._store = store
        self._longest_s = 4 * TIMERS_S if rarely else TIMERS_S

    async def run(self) -> None:
        """See to timers for ever."""
        while True:
            left_s = await self.once()
            await asyncio.sleep(left_s)

    async def once(self) -> float:
        """See to what is due; gives the seconds after which there may be more.

        Whatever is wrong with a timer must not keep the worker from its sessions.
        """
        try:
            await run_timers(self._store)
            return await seconds_to_timer(self._store, self._longest_s)
        except StoreError as exc:
            _log.warning("timers could not be looked at, trying again: %s", exc)
        except Exception:
            _log.exception("a timer could not be seen to, trying again")
        return self._longest_s
