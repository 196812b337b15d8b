"""Threads in which embedders compute: few for each, and no one else's.

An embedder that never returns keeps its own threads only. It is left alone for a while, and no
process waits for it when it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary, finalize

from ekiden.embeddings.base import Embedder

_THREADS = 2
_LOAD_S = 120.0
"""For reading a model's weights: about a second of CPU, much longer on a busy machine."""
_REST_S = 30.0
_LONGEST_REST_S = 300.0

_Job: TypeAlias = tuple[Future[Any], Callable[[], Any]]


class Resting(Exception):
    """The embedder did not answer in time a short while ago, and is not asked now."""


class Lane:
    """Calls one embedder; after a timeout it pauses for half a minute, then a minute, up to five
    minutes."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()
        self._late = 0
        self._rests_until = 0.0

    async def run(self, call: Callable[[], Any], *, seconds: float) -> Any:
        """What it gives; `TimeoutError` after so long, and `Resting` for a while after that."""
        if self._clock() < self._rests_until:
            raise Resting("it was late a short while ago")
        future: Future[Any] = Future()
        self._start()
        self._jobs.put((future, call))
        try:
            async with asyncio.timeout(seconds):
                result = await asyncio.wrap_future(future)
        except TimeoutError:
            now = self._clock()
            if now < self._rests_until:  # Of those that wait together, one counts.
                raise Resting("it is late") from None
            pause = min(_REST_S * 2.0 ** min(self._late, 20), _LONGEST_REST_S)
            self._late += 1
            self._rests_until = now + pause
            raise TimeoutError(f"no vectors within {seconds:g} seconds") from None
        self._late, self._rests_until = 0, 0.0
        return result

    def close(self) -> None:
        """Let the threads end."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._threads == _THREADS:
                return
            self._threads += 1
        threading.Thread(target=_work, args=(self._jobs,), name="ekiden-embed", daemon=True).start()


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        future, call = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except Exception as exc:
                future.set_exception(exc)
            except BaseException as exc:
                # An embedder that wants to end the process ends its call.
                future.set_exception(RuntimeError(f"{type(exc).__name__}: {exc}"))
        del job, future, call


_lanes: WeakKeyDictionary[Embedder, Lane] = WeakKeyDictionary()
_by_name: dict[str, Lane] = {}
"""Of embedders that cannot be keys."""


def lane_of(embedder: Embedder) -> Lane:
    """The process's one for this embedder."""
    try:
        found = _lanes.get(embedder)
    except TypeError:
        return _by_name.setdefault(embedder.name, Lane())
    if found is None:
        found = _lanes[embedder] = Lane()
        finalize(embedder, found.close).atexit = False
    return found


async def embedded(embedder: Embedder, texts: Sequence[str], *, seconds: float) -> Any:
    """What the embedder makes of the texts, whatever that is, within `seconds`.

    The time for reading a local model's weights does not count.
    """
    lane = lane_of(embedder)
    if not getattr(embedder, "is_loaded", True):
        await lane.run(cast("Any", embedder).load, seconds=_LOAD_S)
    return await lane.run(lambda: embedder.embed(texts), seconds=seconds)
