"""The search for memories: embedders in their threads, and the fusion of words and meaning.

Fusion: the cosine decides, and words raise an entry by the third power of their share. An entry
with a few common words of the query is hardly raised, one with most of its rare words far. So a
name or an error code, which an embedding does not know, is found by its letters, and text in other
words or another language by its meaning. Entries with every rare word of the query come first.

Threads: each embedder has its own few threads. An embedder that never returns blocks only these. It
is not called for a while, and no process waits for it at its end.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import isfinite
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary, finalize

from ekiden.core.errors.memory import NoEmbedder
from ekiden.core.roles import FoundBy, MemoryRecord
from ekiden.embeddings.base import Embedder
from ekiden.memory.entries import memory_record
from ekiden.storage.base import SearchEntry, SearchHit, SearchStore

_EVERY_RARE = 0.9
"""From this score on, an entry has every rare word of the query; only common words are missing."""


@dataclass(slots=True)
class _Found:
    entry: SearchEntry
    words: float | None = None
    meaning: float | None = None

    @property
    def score(self) -> float:
        return max(self.words or 0.0, self.meaning or 0.0)

    def sort_key(self, least: float) -> tuple[bool, float, float, str]:
        """The sort key. An entry without a cosine has at most the `least` one that was found."""
        words = self.words or 0.0
        near = least if self.meaning is None else self.meaning
        return words < _EVERY_RARE, -(near + words**3), -self.score, self.entry.key

    @property
    def found_by(self) -> FoundBy:
        if self.words is None:
            return "meaning"
        return "words" if self.meaning is None else "both"


def fused(
    words: Sequence[SearchHit],
    meaning: Sequence[SearchHit],
    *,
    top_k: int,
    threshold: float | None,
    nearness: float,
) -> list[MemoryRecord]:
    """The best entries of both searches.

    Only scores from `threshold` count. Without a threshold, all hits by words count, and hits by
    meaning from `nearness`.
    """
    least_words, least_meaning = (0.0, nearness) if threshold is None else (threshold, threshold)
    found: dict[str, _Found] = {}
    for hit in words:
        found.setdefault(hit.entry.key, _Found(hit.entry)).words = hit.score
    for hit in meaning:
        found.setdefault(hit.entry.key, _Found(hit.entry)).meaning = hit.score
    kept = [
        each
        for each in found.values()
        if (each.words is not None and each.words >= least_words)
        or (each.meaning is not None and each.meaning >= least_meaning)
    ]
    least = min((hit.score for hit in meaning), default=0.0)
    kept.sort(key=lambda each: each.sort_key(least))
    return [
        memory_record(each.entry, score=each.score, found_by=each.found_by) for each in kept[:top_k]
    ]


_THREADS = 2
_LOAD_S = 120.0
"""The time-out of reading a model's weights: about a second of CPU, but more on a busy machine."""
_REST_S = 30.0
_LONGEST_REST_S = 300.0

_Job: TypeAlias = tuple[Future[Any], Callable[[], Any]]


class Resting(Exception):
    """The embedder timed out recently, and is not called now."""


class EmbedderThreads:
    """Calls one embedder in its threads; after a time-out it pauses for half a minute, then a
    minute, up to five minutes."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()
        self._late = 0
        self._rests_until = 0.0

    async def run(self, call: Callable[[], Any], *, seconds: float) -> Any:
        """The result of the call; raises `TimeoutError`, and `Resting` for a while after that."""
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
            if now < self._rests_until:  # Of several concurrent calls, one counts.
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
                # An embedder that raises `SystemExit` ends only its call.
                future.set_exception(RuntimeError(f"{type(exc).__name__}: {exc}"))
        del job, future, call


_threads: WeakKeyDictionary[Embedder, EmbedderThreads] = WeakKeyDictionary()
_by_name: dict[str, EmbedderThreads] = {}
"""The threads of embedders that cannot be keys of a dictionary."""


def threads_of(embedder: Embedder) -> EmbedderThreads:
    """The process's threads for this embedder."""
    try:
        found = _threads.get(embedder)
    except TypeError:
        return _by_name.setdefault(embedder.name, EmbedderThreads())
    if found is None:
        found = _threads[embedder] = EmbedderThreads()
        finalize(embedder, found.close).atexit = False
    return found


async def embedded(embedder: Embedder, texts: Sequence[str], *, seconds: float) -> Any:
    """The unchecked result of the embedder, within `seconds`.

    The time for reading a local model's weights does not count.
    """
    threads = threads_of(embedder)
    if not getattr(embedder, "is_loaded", True):
        await threads.run(cast("Any", embedder).load, seconds=_LOAD_S)
    return await threads.run(lambda: embedder.embed(texts), seconds=seconds)


EMBED_TIMEOUT_S = 15.0
"""The time-out of a batch of texts."""
_BATCH = 64
_BATCHES = 4
_RENEWAL_S = 1.0
"""The limits of new vectors for one query, in batches and seconds; the next query continues."""

_log = logging.getLogger("ekiden.memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The result of `renew`."""

    keys: Sequence[str] = ()
    """The keys of the entries with new vectors."""
    is_complete: bool = True
    """Whether all entries of the space have a vector of the embedder."""


def default_embedder() -> Embedder:
    """The embedder that runs in this process; raises `NoEmbedder` without the extra ``local``."""
    from ekiden.embeddings.local import MISSING, local_embedder

    found = local_embedder()
    if found is None:
        raise NoEmbedder(
            f"memories of the type `vector` need an embedding, and {MISSING}; or use the type "
            "`key_value`, or name another `embedding_model`"
        )
    return found


def model_of(embedder: Embedder) -> str:
    """The name under which vectors are stored; only vectors with the same name are compared."""
    length = f"/{embedder.dimensions}"
    return embedder.name if embedder.name.endswith(length) else f"{embedder.name}{length}"


async def vectors_of(embedder: Embedder, texts: Sequence[str]) -> list[list[float]] | None:
    """A vector for each text; `None` if the embedder is unavailable or its result is invalid, which
    is logged."""
    try:
        rows = await embedded(embedder, texts, seconds=EMBED_TIMEOUT_S)
        return _checked(rows, count=len(texts), length=embedder.dimensions)
    except Resting:
        return None
    except Exception as exc:
        _log.warning("the embedder %s failed: %s: %s", embedder.name, type(exc).__name__, exc)
        return None


def _checked(rows: Any, *, count: int, length: int) -> list[list[float]]:
    found: list[list[float]] = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    if len(found) != count:
        raise ValueError(f"it made {len(found)} vectors of {count} texts")
    for row in found:
        if len(row) != length:
            raise ValueError(f"a vector has {len(row)} numbers, not {length}")
        if not all(map(isfinite, row)):
            raise ValueError("a vector has a value that is not a finite number")
    return found


async def renew(store: SearchStore, space: str, embedder: Embedder) -> Renewal:
    """Add vectors of this embedder to entries of the space that have none, some hundred at most.

    Such entries were stored with another embedder, without one, or while it was unavailable.
    """
    model, after = model_of(embedder), ""
    done: list[str] = []
    end = monotonic() + _RENEWAL_S
    for number in range(_BATCHES):
        if number and monotonic() > end:
            break
        old = await store.find_entries(space, after=after, not_of_model=model, limit=_BATCH)
        if not old:
            return Renewal(keys=done)
        after = old[-1].key
        vectors = await vectors_of(embedder, [entry.text for entry in old])
        if vectors is None:
            return Renewal(keys=done, is_complete=False)
        new = [
            replace(entry, vector=vector, model=model)
            for entry, vector in zip(old, vectors, strict=True)
        ]
        done.extend(await store.put_vectors(new))
    left = await store.find_entries(space, not_of_model=model, limit=1)
    return Renewal(keys=done, is_complete=not left)
