"""Renews the leases of running sessions, and notices the loss of a lease.

One task per store renews all its leases together, at a third of the lease time. It also reads the
requests of other processes for these sessions. The task ends with the last lease.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ekiden.core.errors import LeaseLost, StoreError
from ekiden.handoff.requests import REQUESTS
from ekiden.storage.base import Claim, Document, Store

_log = logging.getLogger("ekiden.leases")

_LOOK_EVERY_S = 0.25
"""Seconds between two reads of the requests, for all sessions together."""
_PAGE = 100
_MOST_PAGES = 10
"""The maximum number of pages of one read; the next read continues after the last page."""


class Hold:
    """The lease of a running session.

    If the lease is lost, only the current step is cancelled. A reader of the event stream gets
    `LeaseLost` at the next event.
    """

    __slots__ = ("_step", "claim", "lost", "may_interrupt", "on_request")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.on_request: Callable[[bool], None] | None = None
        """Called for each request of another process, with `True` if the request interrupts the
        current step."""
        self.may_interrupt: Callable[[Mapping[str, Any]], bool] | None = None
        """Called with a stored urgent request; returns whether it may interrupt the current
        step."""
        self.lost = False
        self._step: asyncio.Task[object] | None = None

    def step(self, task: asyncio.Task[object]) -> Hold:
        """Used as ``with lease.step(task):``. The block waits for a step in `task`. Raises
        `LeaseLost` if the lease is lost."""
        self.check()
        self._step = task
        return self

    def __enter__(self) -> None:
        """Does nothing, because `step` has set the task."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._step = self._step, None
        if self.lost and isinstance(exc, asyncio.CancelledError):
            current = asyncio.current_task()
            if current is not None and current is task:
                # The cancellation was ours and ends here, as `LeaseLost`; the task itself was not
                # cancelled.
                current.uncancel()
            raise LeaseLost(self.claim.session_id) from None

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is lost."""
        if self.lost:
            raise LeaseLost(self.claim.session_id)

    def tell(self, request: Mapping[str, Any]) -> None:
        """Report a new or changed request of another process."""
        if self.on_request is None:
            return
        is_urgent = request.get("policy") == "immediate" or bool(request.get("cancel"))
        if request.get("state", "open") != "open":
            # A withdrawn or answered request interrupts nothing.
            is_urgent = False
        if is_urgent and self.may_interrupt is not None:
            is_urgent = self.may_interrupt(request)
        self.on_request(is_urgent)

    def lose(self) -> None:
        """Cancel the current step, because another process has the lease."""
        self.lost = True
        if self._step is not None:
            self._step.cancel()


class LeaseKeeper:
    """Renews the leases of one store in one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[int, Hold] = {}
        self._latest: dict[str, Hold] = {}
        """The lease of the latest claim, by session."""
        self._task: asyncio.Task[None] | None = None
        self._every_s = math.inf
        """Seconds between renewals; the shortest lease decides."""
        self._last_key = ""
        """The key of the last request that was read. Empty: start with the first request."""

    @contextmanager
    def hold(self, claim: Claim) -> Iterator[Hold]:
        """Keep the lease during the ``with`` block."""
        held = self._held[id(claim)] = Hold(claim)
        self._lose_older(held)
        if claim.lease_s / 3 < self._every_s:
            self._start(claim.lease_s / 3)
        try:
            yield held
        finally:
            self.let_go(claim)
            if not self._held:
                self._stop()

    def let_go(self, claim: Claim) -> None:
        """Stop renewing the lease, because its owner releases it."""
        held = self._held.pop(id(claim), None)
        if held is not None and self._latest.get(claim.session_id) is held:
            del self._latest[claim.session_id]

    def _lose_older(self, held: Hold) -> None:
        """If this process has an older claim on the session, report its loss at once, without
        waiting for the next renewal."""
        older = self._latest.get(held.claim.session_id)
        if older is not None and older.claim.epoch < held.claim.epoch:
            older.lose()
        self._latest[held.claim.session_id] = held

    def _start(self, every_s: float) -> None:
        if self._task is not None:
            self._task.cancel()
        self._every_s = every_s
        self._task = asyncio.create_task(self._renew(every_s))

    def _stop(self) -> None:
        # Remove the keeper while the store still exists: after garbage collection, another store
        # may have the same id.
        _keepers.pop((id(asyncio.get_running_loop()), id(self._store)), None)
        self._every_s = math.inf
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _renew(self, every_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + every_s
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, max(due - loop.time(), 0)))
            await self._look_for_requests()
            if loop.time() < due:
                continue
            due = loop.time() + every_s
            claims = [held.claim for held in self._held.values()]
            try:
                lost = await self._store.renew(claims)
            except StoreError as exc:
                # Two thirds of the lease time are left for another attempt. If the lease expires
                # meanwhile, the epoch check refuses late commits.
                _log.warning("leases could not be renewed, trying again: %s", exc)
                continue
            for claim in lost:
                held = self._held.get(id(claim))
                if held is not None:
                    held.lose()

    async def _look_for_requests(self) -> None:
        """Read the stored requests, and report them to the runs that they concern."""
        for _ in range(_MOST_PAGES):
            try:
                page = await self._store.list_documents(REQUESTS, after=self._last_key, limit=_PAGE)
            except StoreError:
                return
            self._tell(page)
            self._last_key = page[-1].key if len(page) == _PAGE else ""
            if not self._last_key:
                return

    def _tell(self, requests: Sequence[Document]) -> None:
        if not requests:
            return
        by_session = {held.claim.session_id: held for held in self._held.values()}
        for document in requests:
            held = by_session.get(document.key.rpartition("/")[0])
            if held is not None:
                held.tell(document.body)


_keepers: dict[tuple[int, int], LeaseKeeper] = {}
"""By the ids of event loop and store. A keeper with a lease is in this table and keeps its store
alive."""


def keeper_of(store: Store) -> LeaseKeeper:
    """The keeper of this store in the running event loop."""
    key = (id(asyncio.get_running_loop()), id(store))
    keeper = _keepers.get(key)
    if keeper is None:
        keeper = _keepers[key] = LeaseKeeper(store)
    return keeper
