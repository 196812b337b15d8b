"""Serves several stores in one process. The stores share the maximum concurrency fairly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any, Protocol

from ekiden.core.errors import StoreError
from ekiden.engine.store_worker import REST_S, StoreWorker
from ekiden.runtime.questions.questions import pauses
from ekiden.storage.base import Claim, SessionRow

_log = logging.getLogger("ekiden.worker")

_FEW = 20
"""With more stores than this, each store is checked less often."""

BackgroundWork = Callable[[], Coroutine[Any, Any, None]]
"""A task that runs as long as its store is served."""

_NARROWEST, _WIDEST = 2, 8
"""The minimum and maximum number of concurrent claims; more while claims find sessions. With two,
the second one finds out that there is no more work."""
_SHORTEST_S = 0.005
_LONGEST_S = 0.04
"""The minimum and maximum pause after a claim that found nothing, while hints keep coming."""

_turns = count(1)


class SessionQueue:
    """The claims of one store in a fleet, and the store's share of the fleet's slots."""

    def __init__(
        self,
        store_worker: StoreWorker,
        background: Sequence[Callable[[], Coroutine[Any, Any, None]]],
    ) -> None:
        self.store_worker = store_worker
        self.background = background
        self.may_have = True
        """Whether there may be unclaimed work."""
        self.hints = 0
        self.rest_until = 0.0
        """The event loop's time until which the store is not asked."""
        self.is_troubled = False
        """Whether the last claim failed."""
        self.is_gone = False
        self.claims = 0
        """The number of claims in progress."""
        self._taken = 0
        self._width = _NARROWEST
        self._pause_s = _SHORTEST_S
        self._last_turn = 0
        self._tasks: list[asyncio.Task[None]] = []

    def wants_more(self, now: float) -> bool:
        """Whether another claim may find a session."""
        return self.may_have and self.claims < self._width and self.rest_until <= now

    def turn(self) -> tuple[int, int]:
        """The sort key for the next turn. The store with the fewest slots comes first. Of several
        such stores, the one that has waited longest comes first."""
        return self._taken, self._last_turn

    def begin(self) -> None:
        """Take a slot, and start a claim with it."""
        self._taken += 1
        self.claims += 1
        self._last_turn = next(_turns)

    def claimed(self) -> None:
        """Take note that a claim has ended."""
        self.claims -= 1

    def end(self) -> None:
        """Free the slot."""
        self._taken -= 1

    def found(self) -> None:
        """Take note that a claim found a session, so there may be more ready sessions."""
        self.is_troubled = False
        self._width = min(self._width * 2, _WIDEST)
        self._pause_s = _SHORTEST_S
        self.may_have = True

    def missed(self, hints: int) -> float:
        """Take note that a claim found no session, and return the seconds to pause.

        `hints` is the number of hints before the claim. A later hint may be about a session that
        the claim did not see.
        """
        self._width = _NARROWEST
        self.is_troubled = False
        self.may_have = self.hints != hints
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_S)
        return pause_s

    def failed(self) -> None:
        """Take note that a claim failed."""
        self._width = _NARROWEST
        self.is_troubled = True

    def hurry(self) -> None:
        """End the pause, because a finished session may have made other sessions ready."""
        if not self.is_troubled:
            self._pause_s, self.rest_until = _SHORTEST_S, 0.0

    def hinted(self) -> None:
        """Take note of a change in the store, or that it is time to check the store."""
        self.hints += 1
        self.may_have = True

    def start(self, *work: Coroutine[Any, Any, None]) -> None:
        """Start background tasks, which run until `end_background`."""
        self._tasks += [asyncio.create_task(each) for each in work]

    async def end_background(self) -> None:
        """Stop the background tasks."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ServedStores(Protocol):
    """Runs the sessions of several stores. See `Fleet`."""

    stopping: asyncio.Event

    @property
    def concurrency(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def finished(self) -> int: ...
    @property
    def is_stopping(self) -> bool: ...
    def add(self, store_worker: StoreWorker, *background: BackgroundWork) -> None: ...
    async def remove(self, store_worker: StoreWorker) -> None: ...
    def stop(self) -> None: ...
    async def run(
        self, *, until_idle: bool = False, ready: Callable[[], None] = lambda: None
    ) -> None: ...


class Fleet:
    """Runs ready sessions of all its stores, at most `concurrency` at a time.

    You can add and remove stores while the fleet runs::

        fleet = Fleet(concurrency=16)
        fleet.add(StoreWorker(store, team, serves=["triage"], config=RunConfig()))
        await fleet.run()
    """

    def __init__(self, *, concurrency: int) -> None:
        self.concurrency = concurrency
        self._lines: dict[StoreWorker, SessionQueue] = {}
        self._taken = 0
        """The number of used slots: for running sessions and claims in progress."""
        self._claims = 0
        """The number of sessions claimed so far."""
        self._news = asyncio.Event()
        self.stopping = asyncio.Event()
        """Set when no further session may be claimed."""
        self._is_running = False
        self._finished_before = 0
        """The number of finished sessions of removed stores."""

    @property
    def store_workers(self) -> Sequence[StoreWorker]:
        """The served stores."""
        return list(self._lines)

    @property
    def running(self) -> int:
        """The number of sessions that are running now."""
        return sum(len(store_worker.under_way) for store_worker in self._lines)

    @property
    def finished(self) -> int:
        """The number of sessions that were run to an outcome."""
        return self._finished_before + sum(store_worker.finished for store_worker in self._lines)

    @property
    def is_stopping(self) -> bool:
        """Whether no further session is claimed."""
        return self.stopping.is_set()

    def add(self, store_worker: StoreWorker, *background: BackgroundWork) -> None:
        """Serve a store. The `background` tasks run concurrently, and must not fail."""
        store_worker.stopping = self.stopping
        line = self._lines[store_worker] = SessionQueue(store_worker, background)
        if self._is_running:
            self._begin(line)
            self._news.set()

    async def remove(self, store_worker: StoreWorker) -> None:
        """Stop serving a store. Other processes continue its running sessions."""
        line = self._lines.pop(store_worker, None)
        if line is None:
            return
        line.is_gone = True
        await asyncio.gather(
            *(
                store_worker.stop_session(each, status_on_cancel="ready")
                for each in list(store_worker.under_way)
            )
        )
        await line.end_background()
        # Counted last, because sessions may still finish while they are being stopped.
        self._finished_before += store_worker.finished

    def stop(self) -> None:
        """Claim no further session, and end when the running sessions are done."""
        self.stopping.set()
        self._news.set()

    async def run(
        self, *, until_idle: bool = False, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Work until `stop` is called. With `until_idle`, also end when no session is ready,
        running, or waiting for a retry. `ready` is called at the start."""
        ready()
        self._is_running = True
        for line in self._lines.values():
            self._begin(line)
        try:
            async with asyncio.TaskGroup() as group:
                await self._work(group, until_idle)
        finally:
            self._is_running = False
            await asyncio.gather(*(line.end_background() for line in self._lines.values()))

    async def _work(self, group: asyncio.TaskGroup, until_idle: bool) -> None:
        looked: int | None = None
        while not self.stopping.is_set():
            self._news.clear()
            line = self._choose()
            if line is not None:
                self._taken += 1
                line.begin()
                group.create_task(self._serve(line))
                continue
            if until_idle and self._is_idle():
                # Idle twice with no claim in between: nothing became ready meanwhile.
                if looked == self._claims:
                    return
                if not await self._pauses():
                    # A session that paused a moment ago may be ready now.
                    looked = self._claims
                    for line in self._lines.values():
                        line.hurry()
                        line.hinted()
                    continue
            await self._news.wait()

    def _choose(self) -> SessionQueue | None:
        """The store with the next turn; `None` if there is no free slot, or no known work."""
        if self._taken >= self.concurrency:
            return None
        now = asyncio.get_running_loop().time()
        wanting = (line for line in self._lines.values() if line.wants_more(now))
        return min(wanting, key=SessionQueue.turn, default=None)

    async def _serve(self, line: SessionQueue) -> None:
        """Claim one session, and run it."""
        try:
            claimed = await self._claim(line)
            if claimed is not None:
                try:
                    await line.store_worker.advance(*claimed)
                finally:
                    line.hurry()
        finally:
            self._taken -= 1
            line.end()
            self._news.set()

    async def _claim(self, line: SessionQueue) -> tuple[Claim, SessionRow] | None:
        # Read before the claim, because a hint during the claim may be about a session that the
        # claim did not see.
        hints = line.hints
        claimed = None
        try:
            claimed = await line.store_worker.claim()
            if claimed is None:
                self._rest(line, line.missed(hints))
            # The fleet was stopped during the claim: leave the session to another process.
            elif self.stopping.is_set() or line.is_gone:
                unwanted, claimed = claimed, None
                await line.store_worker.store.release(unwanted[0])
            else:
                self._claims += 1
                line.found()
        except StoreError as exc:
            _log.warning("no session could be claimed, trying again: %s", exc)
            line.failed()
            self._rest(line, REST_S)
        except Exception:
            _log.exception("no session could be claimed, trying again")
            line.failed()
            self._rest(line, REST_S)
        finally:
            line.claimed()
            self._news.set()
        return claimed

    def _rest(self, line: SessionQueue, seconds: float) -> None:
        """Do not ask this store for this many seconds."""
        loop = asyncio.get_running_loop()
        line.rest_until = loop.time() + seconds
        # Wakes the loop of `_work` at the end of the pause.
        loop.call_later(seconds, self._news.set)

    def _has_room(self) -> bool:
        """Whether another session could be claimed; claims in progress may find none."""
        claims = sum(line.claims for line in self._lines.values())
        return self._taken - claims < self.concurrency and not self.is_stopping

    def _is_idle(self) -> bool:
        return not self._taken and not any(line.may_have for line in self._lines.values())

    async def _pauses(self) -> bool:
        """Whether a session will soon continue by itself."""
        for store_worker in self.store_workers:
            try:
                if await pauses(store_worker.store):
                    return True
                if store_worker.has_more is not None and await store_worker.has_more():
                    asyncio.get_running_loop().call_later(REST_S, self._news.set)
                    return True
            except StoreError as exc:
                _log.warning("paused sessions could not be checked, trying again: %s", exc)
                return True
        return False

    def _begin(self, line: SessionQueue) -> None:
        line.hinted()
        line.start(self._watch(line), *(each() for each in line.background))

    async def _watch(self, line: SessionQueue) -> None:
        """Wait for changes in a store, for ever; also check regularly without a change."""
        while True:
            # With many stores, each store is checked less often without a hint.
            slower = max(1.0, len(self._lines) / _FEW)
            try:
                await line.store_worker.ready(slower=slower, has_room=self._has_room)
            except StoreError:
                await asyncio.sleep(REST_S)
            except Exception:
                _log.exception("changes could not be heard of, trying again")
                await asyncio.sleep(REST_S)
            line.hinted()
            self._news.set()
