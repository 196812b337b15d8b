"""Keeping the leases of sessions that are being run, and noticing when one is lost.

One task per store renews all its leases together, at a third of the lease time. It lives while
there is a lease to keep.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ekiden.core.errors import LeaseLost, StoreError
from ekiden.storage.base import Claim, Store

_log = logging.getLogger("ekiden.leases")


class LeaseKeeper:
    """Renews the leases of one store in one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[int, tuple[Claim, asyncio.Task[object]]] = {}
        self._lost: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._every_s = 0.0
        """A third of the shortest lease."""

    @asynccontextmanager
    async def hold(self, claim: Claim) -> AsyncIterator[None]:
        """Keep the lease while the body runs; if it is lost, the body ends in `LeaseLost`."""
        task = asyncio.current_task()
        assert task is not None
        self._held[id(claim)] = (claim, task)
        self._start(claim.lease_s / 3)
        try:
            yield
        except (asyncio.CancelledError, LeaseLost):
            if id(claim) in self._lost:
                task.uncancel()
                raise LeaseLost(claim.session_id) from None
            raise
        finally:
            self.let_go(claim)
            self._lost.discard(id(claim))
            if not self._held:
                self._stop()

    def let_go(self, claim: Claim) -> None:
        """Renew the lease no longer: its owner gives it up, and that is no loss."""
        self._held.pop(id(claim), None)

    def _start(self, every_s: float) -> None:
        """Renew at least so often."""
        if self._task is not None and not self._task.done():
            if every_s >= self._every_s:
                return
            self._task.cancel()
        self._every_s = every_s
        self._task = asyncio.create_task(self._renew(every_s))

    def _stop(self) -> None:
        _keepers.pop((id(asyncio.get_running_loop()), id(self._store)), None)
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _renew(self, every_s: float) -> None:
        while self._held:
            await asyncio.sleep(every_s)
            claims = [claim for claim, _ in self._held.values()]
            try:
                lost = await self._store.renew(claims)
            except StoreError as exc:
                _log.warning("leases could not be renewed, trying again: %s", exc)
                continue
            for claim in lost:
                held = self._held.get(id(claim))
                if held is not None:
                    self._lost.add(id(claim))
                    held[1].cancel()


_keepers: dict[tuple[int, int], LeaseKeeper] = {}
"""By event loop and store; a keeper is in here, and keeps its store alive, while it holds one."""


def keeper_of(store: Store) -> LeaseKeeper:
    """The keeper for this store in the running loop."""
    key = (id(asyncio.get_running_loop()), id(store))
    keeper = _keepers.get(key)
    if keeper is None:
        keeper = _keepers[key] = LeaseKeeper(store)
    return keeper


_owner: tuple[int, str] = (0, "")


def owner_name() -> str:
    """Who this process is, for leases: host, process and a random part."""
    global _owner
    pid = os.getpid()
    if _owner[0] != pid:
        _owner = (pid, f"{socket.gethostname()[:24]}-{pid}-{os.urandom(3).hex()}")
    return _owner[1]
