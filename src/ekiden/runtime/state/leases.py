"""Keeping the leases of sessions that are being run, and noticing when one is lost.

One task per store renews all its leases together, at a third of the lease time, and looks for what
other processes ask of these sessions. It lives while there is a lease to keep.
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
from ekiden.handoff.records.requests import REQUESTS
from ekiden.storage.base import Claim, Document, Store

_log = logging.getLogger("ekiden.leases")

_LOOK_EVERY_S = 0.25
"""How often the store is asked for requests of other processes, for all sessions together."""
_PAGE = 100
_MOST_PAGES = 10
"""How many requests are read at once, and how often; the next look begins where this one ended."""


class Hold:
    """A lease that is kept while its session is run.

    Its loss cancels the current step and nothing else: a reader of the event stream learns of it at
    the next event.
    """

    __slots__ = ("_step", "claim", "lost", "may_interrupt", "on_request")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.on_request: Callable[[bool], None] | None = None
        """Called when another process wants something of the session; whether at once."""
        self.may_interrupt: Callable[[Mapping[str, Any]], bool] | None = None
        """Asked whether a request, as it is stored, is worth breaking the step under way off."""
        self.lost = False
        self._step: asyncio.Task[object] | None = None

    def step(self, task: asyncio.Task[object]) -> Hold:
        """The body of the `with` waits for a step, which `task` takes; `LeaseLost` if the lease is
        lost."""
        self.check()
        self._step = task
        return self

    def __enter__(self) -> None:
        """`step` did all."""

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
        """`LeaseLost` if the lease is lost."""
        if self.lost:
            raise LeaseLost(self.claim.session_id)

    def tell(self, request: Mapping[str, Any]) -> None:
        """Another process wants something of the session, or does not want it any more."""
        if self.on_request is None:
            return
        is_urgent = request.get("policy") == "immediate" or bool(request.get("cancel"))
        if request.get("state", "open") != "open":
            # A request that was withdrawn, or has an answer, interrupts nothing.
            is_urgent = False
        if is_urgent and self.may_interrupt is not None:
            is_urgent = self.may_interrupt(request)
        self.on_request(is_urgent)

    def lose(self) -> None:
        """Another process has the lease now."""
        self.lost = True
        if self._step is not None:
            self._step.cancel()


class LeaseKeeper:
    """Renews the leases of one store in one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[int, Hold] = {}
        self._latest: dict[str, Hold] = {}
        """By session: that of the last claim."""
        self._task: asyncio.Task[None] | None = None
        self._every_s = math.inf
        """The shortest lease says how often all are renewed."""
        self._looked_at = ""
        """The last request of the page that was read last; empty: begin at the first."""

    @contextmanager
    def hold(self, claim: Claim) -> Iterator[Hold]:
        """Keep the lease while the body runs."""
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
        """Renew the lease no longer: its owner gives it up, and that is no loss."""
        held = self._held.pop(id(claim), None)
        if held is not None and self._latest.get(claim.session_id) is held:
            del self._latest[claim.session_id]

    def _lose_older(self, held: Hold) -> None:
        """An older claim on the session in this process is lost: tell its owner at once, before the
        store would."""
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
        # Out of the table before the store may be collected: its id may then belong to another
        # store.
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
                # The lease still has two thirds of its time. If the store stays away longer, the
                # epoch keeps late commits out.
                _log.warning("leases could not be renewed, trying again: %s", exc)
                continue
            for claim in lost:
                held = self._held.get(id(claim))
                if held is not None:
                    held.lose()

    async def _look_for_requests(self) -> None:
        """Tell those who run a session that another process wants something of it."""
        for _ in range(_MOST_PAGES):
            try:
                page = await self._store.list_documents(
                    REQUESTS, after=self._looked_at, limit=_PAGE
                )
            except StoreError:
                return
            self._tell(page)
            self._looked_at = page[-1].key if len(page) == _PAGE else ""
            if not self._looked_at:
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
"""By event loop and store; a keeper is in here, and keeps its store alive, while it holds one."""


def keeper_of(store: Store) -> LeaseKeeper:
    """The keeper for this store in the running loop."""
    key = (id(asyncio.get_running_loop()), id(store))
    keeper = _keepers.get(key)
    if keeper is None:
        keeper = _keepers[key] = LeaseKeeper(store)
    return keeper
