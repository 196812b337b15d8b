"""Several stores served by one process, which share its places fairly."""

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
"""With more stores than that, each is looked at less often."""

BackgroundWork = Callable[[], Coroutine[Any, Any, None]]
"""Something that goes on, for one store, as long as it is served."""

_NARROWEST, _WIDEST = 2, 8
"""So many claims at a time, more while each finds something. Of two the second tells that there is
no more, and stores that take several sessions at once need not be asked again."""
_SHORTEST_S = 0.005
_LONGEST_S = 0.04
"""Between looks that find nothing, while hints keep coming."""

_turns = count(1)


class SessionQueue:
    """The sessions of one store that stand in line for the worker's places."""

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
        """In the time of the loop."""
        self.is_troubled = False
        """Whether the last claim failed, so that the store needs a rest."""
        self.is_gone = False
        self.claims = 0
        """Under way."""
        self._taken = 0
        self._width = _NARROWEST
        self._pause_s = _SHORTEST_S
        self._last_turn = 0
        self._tasks: list[asyncio.Task[None]] = []

    def wants_more(self, now: float) -> bool:
        """Whether another claim may find something."""
        return self.may_have and self.claims < self._width and self.rest_until <= now

    def turn(self) -> tuple[int, int]:
        """The lowest has the next turn: who has the fewest places, and among these who had none for
        longest."""
        return self._taken, self._last_turn

    def begin(self) -> None:
        """A place is taken, for a claim to begin with."""
        self._taken += 1
        self.claims += 1
        self._last_turn = next(_turns)

    def claimed(self) -> None:
        """A claim is over, whether or not it found something."""
        self.claims -= 1

    def end(self) -> None:
        """A place is free again."""
        self._taken -= 1

    def found(self) -> None:
        """A claim found something: there may be much more."""
        self.is_troubled = False
        self._width = min(self._width * 2, _WIDEST)
        self._pause_s = _SHORTEST_S
        self.may_have = True

    def missed(self, hints: int) -> float:
        """A claim that began when there were so many `hints` found nothing; gives the seconds after
        which to look again, should there be another hint."""
        self._width = _NARROWEST
        self.is_troubled = False
        self.may_have = self.hints != hints
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_S)
        return pause_s

    def failed(self) -> None:
        """A claim could not be made."""
        self._width = _NARROWEST
        self.is_troubled = True

    def hurry(self) -> None:
        """Something was done here that may have left work behind: a hint of it counts at once."""
        if not self.is_troubled:
            self._pause_s, self.rest_until = _SHORTEST_S, 0.0

    def hinted(self) -> None:
        """Something changed, or it is time to check."""
        self.hints += 1
        self.may_have = True

    def start(self, *work: Coroutine[Any, Any, None]) -> None:
        """Let this go on until `end_background`."""
        self._tasks += [asyncio.create_task(each) for each in work]

    async def end_background(self) -> None:
        """Stop what goes on beside the sessions."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ServedStores(Protocol):
    """Advances the sessions of several stores; see `Fleet`."""

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
    """Advances ready sessions of all its stores, `concurrency` of them at a time.

    Stores may come and go while it runs::

        fleet = Fleet(concurrency=16)
        fleet.add(StoreWorker(store, team, serves=["triage"], config=RunConfig()))
        await fleet.run()
    """

    def __init__(self, *, concurrency: int) -> None:
        self.concurrency = concurrency
        self._lines: dict[StoreWorker, SessionQueue] = {}
        self._taken = 0
        """Places: sessions that are run, and claims under way."""
        self._claims = 0
        """Sessions that were claimed, ever."""
        self._news = asyncio.Event()
        self.stopping = asyncio.Event()
        """Set when no further session is to be taken."""
        self._is_running = False
        self._finished_before = 0
        """In stores that were removed."""

    @property
    def store_workers(self) -> Sequence[StoreWorker]:
        """Those that are served."""
        return list(self._lines)

    @property
    def running(self) -> int:
        """How many sessions are run now."""
        return sum(len(store_worker.under_way) for store_worker in self._lines)

    @property
    def finished(self) -> int:
        """How many sessions were advanced to an outcome."""
        return self._finished_before + sum(store_worker.finished for store_worker in self._lines)

    @property
    def is_stopping(self) -> bool:
        """Whether no further session is taken."""
        return self.stopping.is_set()

    def add(self, store_worker: StoreWorker, *background: BackgroundWork) -> None:
        """Serve a store. `background` runs in parallel to its sessions, and must not fail."""
        store_worker.stopping = self.stopping
        line = self._lines[store_worker] = SessionQueue(store_worker, background)
        if self._is_running:
            self._begin(line)
            self._news.set()

    async def remove(self, store_worker: StoreWorker) -> None:
        """Stop serving a store; its sessions under way are left for others."""
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
        # Counted last, because sessions may still end while they are stopped.
        self._finished_before += store_worker.finished

    def stop(self) -> None:
        """Take no further session and end when those under way are done."""
        self.stopping.set()
        self._news.set()

    async def run(
        self, *, until_idle: bool = False, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Work until `stop`; with `until_idle` also end when nothing is left to do now: no session
        is ready or under way, and none pauses before it tries something again. `ready` is called
        when the work begins."""
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
                    # What paused a moment ago may be ready by now.
                    looked = self._claims
                    for line in self._lines.values():
                        line.hurry()
                        line.hinted()
                    continue
            await self._news.wait()

    def _choose(self) -> SessionQueue | None:
        """Whose turn it is; `None` if there is no place, or no work as far as is known."""
        if self._taken >= self.concurrency:
            return None
        now = asyncio.get_running_loop().time()
        wanting = (line for line in self._lines.values() if line.wants_more(now))
        return min(wanting, key=SessionQueue.turn, default=None)

    async def _serve(self, line: SessionQueue) -> None:
        """Claim one session and take it as far as it goes."""
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
        # Read before the claim: a hint that comes while it is under way may be about a session that
        # it did not see.
        hints = line.hints
        claimed = None
        try:
            claimed = await line.store_worker.claim()
            if claimed is None:
                self._rest(line, line.missed(hints))
            # The claim was under way when the worker was told to stop: another process gets the
            # session.
            elif self.stopping.is_set() or line.is_gone:
                taken, claimed = claimed, None
                await line.store_worker.store.release(taken[0])
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
        """Look at this store again only after a while."""
        loop = asyncio.get_running_loop()
        line.rest_until = loop.time() + seconds
        # Without this call the loop of `_work` would sleep past the end of the pause.
        loop.call_later(seconds, self._news.set)

    def _rest_a_little(self) -> None:
        asyncio.get_running_loop().call_later(REST_S, self._news.set)

    def _has_room(self) -> bool:
        """Whether another session would be taken; a claim under way may find none."""
        claims = sum(line.claims for line in self._lines.values())
        return self._taken - claims < self.concurrency and not self.is_stopping

    def _is_idle(self) -> bool:
        return not self._taken and not any(line.may_have for line in self._lines.values())

    async def _pauses(self) -> bool:
        """Whether a session will go on by itself before long."""
        for store_worker in self.store_workers:
            try:
                if await pauses(store_worker.store):
                    return True
                if store_worker.has_more is not None and await store_worker.has_more():
                    self._rest_a_little()
                    return True
            except StoreError as exc:
                _log.warning("pauses could not be looked for, trying again: %s", exc)
                return True
        return False

    def _begin(self, line: SessionQueue) -> None:
        line.hinted()
        line.start(self._watch(line), *(each() for each in line.background))

    async def _watch(self, line: SessionQueue) -> None:
        """Hear of changes in a store, for ever, and look now and then without a hint."""
        while True:
            # With many stores the looks without a hint would add up, so each store is looked at
            # less often.
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
