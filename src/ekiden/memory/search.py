"""Converts memories to search entries, and searches memories by words and by meaning.

Ranking: an entry's rank follows from the sum of its cosine and the third power of the share of the
query's words that it contains. A match of a few common words hardly changes the sum. A match of
most rare words raises it a lot. So a name or an error code, which an embedding does not know, is
found by its letters. Text in other words or in another language is found by its meaning. Entries
with every rare word of the query come first.

Threads: each embedder has a few threads of its own. An embedder that never returns blocks only its
own threads. Such an embedder is not called for a while, and a process that ends does not wait for
it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from hashlib import sha256
from math import isfinite
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, cast
from unicodedata import category
from weakref import WeakKeyDictionary, finalize

from ekiden.core.errors import UserError
from ekiden.core.errors.memory import MemoryInvalid, MemoryTooLarge, NoEmbedder, NoMemory
from ekiden.core.profile import MemoryScope
from ekiden.core.roles import FoundBy, MemoryRecord
from ekiden.core.values import dumps, loads
from ekiden.embeddings.base import Embedder
from ekiden.storage.base import SearchEntry, SearchHit, SearchStore

MAX_KEY = 512
"""The maximum length of a key, in characters."""
MAX_CONTENT = 64 * 1024
"""The maximum size of a content, in bytes of UTF-8."""
MAX_METADATA = 16 * 1024
"""The maximum size of metadata, in bytes of JSON."""
MAX_TOP_K = 100

_UNFIT = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that a key cannot have."""
_REPLACEMENT = "\ufffd"


def checked_key(key: object) -> str:
    """Return the key without surrounding space. Raises `MemoryInvalid` or `MemoryTooLarge`."""
    if not isinstance(key, str) or not key.strip():
        raise MemoryInvalid(f"a key must be a text that is not blank, not {key!r:.80}")
    key = key.strip()
    if len(key) > MAX_KEY:
        raise MemoryTooLarge("the key", len(key), limit=MAX_KEY, unit="characters")
    if not _UNFIT.isdisjoint(map(category, key)):
        raise MemoryInvalid(f"the key {key[:80]!r} has control characters, or lone surrogates")
    return key


def checked_content(content: object) -> str:
    """Return the content, in which NUL and lone surrogates are replaced, because some stores cannot
    store them. Raises `MemoryInvalid` or `MemoryTooLarge`."""
    if not isinstance(content, str) or not content.strip():
        raise MemoryInvalid(f"a memory must be a text that is not blank: {content!r:.80}")
    content = content.replace("\x00", _REPLACEMENT)
    try:
        raw = content.encode()
    except UnicodeEncodeError:
        content = "".join(_REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in content)
        raw = content.encode()
    if len(raw) > MAX_CONTENT:
        raise MemoryTooLarge("the content", len(raw), limit=MAX_CONTENT)
    return content


def checked_metadata(metadata: object) -> dict[str, Any]:
    """Return a copy of the metadata. Raises `MemoryInvalid` unless the metadata is a JSON
    object."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise MemoryInvalid(f"`metadata` must be a JSON object, not {type(metadata).__name__}")
    try:
        text = dumps(dict(metadata))
    except (TypeError, ValueError, RecursionError) as exc:
        raise MemoryInvalid(f"`metadata` is not JSON: {exc!s:.200}") from exc
    size = len(text.encode())
    if size > MAX_METADATA:
        raise MemoryTooLarge("`metadata`", size, limit=MAX_METADATA)
    copied: dict[str, Any] = loads(text)
    return copied


def key_of(content: str) -> str:
    """The key of a content that is stored without a key. The same words always have the same
    key."""
    words = " ".join(content.split())
    return f"note-{sha256(words.encode()).hexdigest()[:16]}"


def checked_top_k(top_k: int) -> int:
    """Return `top_k`. Raises `UserError` unless it is from 1 to `MAX_TOP_K`."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise UserError(f"`top_k` must be from 1 to {MAX_TOP_K}, not {top_k!r:.40}")
    return top_k


def checked_threshold(threshold: float | None) -> float | None:
    """Return `threshold`. Raises `UserError` unless it is from 0 to 1."""
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise UserError(f"`threshold` must be a number from 0 to 1, not {threshold!r:.40}")
    if not 0 <= threshold <= 1:
        raise UserError(f"`threshold` must be from 0 to 1, not {threshold!r:.40}")
    return float(threshold)


def entry_of(
    space: str,
    key: str,
    content: str,
    metadata: Mapping[str, Any],
    *,
    agent: str | None,
    stored_at_us: int,
) -> SearchEntry:
    """The search entry of a memory, without a vector.

    The searchable text begins with the tags and with a key that the caller chose, so that searches
    find them.
    """
    tags = [tag for tag in _listed(metadata.get("tags")) if isinstance(tag, str)]
    words = [] if key == key_of(content) else [key]
    heading = " ".join([*words, *(_storable(tag) for tag in tags)])
    text = f"{heading}\n{content}" if heading else content
    body: dict[str, Any] = {"v": 1, "at": stored_at_us, "head": len(text) - len(content)}
    if metadata:
        body["meta"] = dict(metadata)
    if agent is not None:
        body["by"] = agent
    return SearchEntry(space=space, key=key, text=text, body=body)


def memory_record(
    entry: SearchEntry, *, score: float | None = None, found_by: FoundBy | None = None
) -> MemoryRecord:
    """The memory of a search entry."""
    body = entry.body if isinstance(entry.body, dict) else {}
    return MemoryRecord(
        key=entry.key,
        content=entry.text[body.get("head", 0) :],
        metadata=body.get("meta", {}),
        score=score,
        found_by=found_by,
        stored_at_us=body.get("at", entry.updated_at_us),
        agent=body.get("by"),
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", " ")


DEFAULT_APP = "ekiden"
"""The default name of the app. The command `ekiden` has the same default."""


def space_of(scope: MemoryScope, *, app: str | None, user: str | None) -> str:
    """Return the name of a space. A space is a namespace in the store, with the memories of one
    user or of the app itself. `scope` says which of the two. Raises `NoMemory` if `scope` is
    ``user`` and no user is given.

    The default of `app` is ``ekiden``. The command `ekiden memory` has the same default, so it
    finds the memories that a program has stored without naming an app.

    All agents that work for a user in an app share the memories of this user. Ids are
    case-sensitive. The name of the space contains a hash of the ids of app and user. Each id is
    hashed with its length, so that different ids cannot collide.
    """
    app = app or DEFAULT_APP
    if scope == "user":
        if not user:
            raise NoMemory(
                "nothing can be remembered or recalled: this memory is a user's, and the session "
                "has no user (`Session(user_id=…)`, `--user`, or the setting `user`)"
            )
        return f"memory.user.{_hash(app, user)}"
    return f"memory.app.{_hash(app)}"


def _hash(*parts: str) -> str:
    digest = sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b;" % (len(raw), raw))
    return digest.hexdigest()


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
    """Return the best entries of the search by words and the search by meaning. Entries with a
    score below `threshold` are left out.

    Without a threshold, all hits by words are included, and hits by meaning with a cosine of at
    least `nearness`.
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
    """Calls one embedder in threads of its own. After a timeout, the embedder is not called for
    half a minute. This pause doubles with every further timeout, up to five minutes."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()
        self._late = 0
        self._rests_until = 0.0

    async def run(self, call: Callable[[], Any], *, seconds: float) -> Any:
        """Return the result of the call. Raises `TimeoutError` after a timeout, and `Resting`
        during the pause after it."""
        if self._clock() < self._rests_until:
            raise Resting("it timed out a moment ago")
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
        """End the threads when their current calls return."""
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
        # While the thread waits, these names would keep the embedder and its last result alive.
        del job, future, call


_threads: WeakKeyDictionary[Embedder, EmbedderThreads] = WeakKeyDictionary()
_by_name: dict[str, EmbedderThreads] = {}
"""The threads of embedders that cannot be keys of a dictionary."""


def threads_of(embedder: Embedder) -> EmbedderThreads:
    """The threads of this process for this embedder."""
    try:
        found = _threads.get(embedder)
    except TypeError:
        return _by_name.setdefault(embedder.name, EmbedderThreads())
    if found is None:
        found = _threads[embedder] = EmbedderThreads()
        finalize(embedder, found.close).atexit = False
    return found


async def embedded(embedder: Embedder, texts: Sequence[str], *, seconds: float) -> Any:
    """Return the result of the embedder without checking it. The call may take at most `seconds`
    seconds.

    The time for reading a local model's weights does not count.
    """
    threads = threads_of(embedder)
    if not getattr(embedder, "is_loaded", True):
        await threads.run(cast("Any", embedder).load, seconds=_LOAD_S)
    return await threads.run(lambda: embedder.embed(texts), seconds=seconds)


EMBED_TIMEOUT_S = 15.0
"""The timeout for a batch of texts, in seconds."""
_BATCH = 64
_BATCHES = 4
_RENEWAL_S = 1.0
"""The limits of new vectors for one query, in batches and seconds; the next query continues."""

_log = logging.getLogger("ekiden.memory")


def default_embedder() -> Embedder:
    """Return the embedder that runs in this process. Raises `NoEmbedder` if the extra ``local`` is
    not installed."""
    from ekiden.embeddings.local import MISSING, local_embedder

    found = local_embedder()
    if found is None:
        raise NoEmbedder(
            f"memories of the type `vector` need an embedding, and {MISSING}; or use the type "
            "`key_value`, or name another `embedding_model`"
        )
    return found


def model_of(embedder: Embedder) -> str:
    """The name that is stored with vectors of this embedder. Only vectors with the same name are
    compared."""
    length = f"/{embedder.dimensions}"
    return embedder.name if embedder.name.endswith(length) else f"{embedder.name}{length}"


async def vectors_of(embedder: Embedder, texts: Sequence[str]) -> list[list[float]] | None:
    """Return a vector for each text. If the embedder is unavailable or its result is invalid, this
    is logged, and the function returns `None`."""
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


async def renew(
    store: SearchStore,
    space: str,
    embedder: Embedder,
    *,
    changing: Callable[[Collection[str]], AbstractAsyncContextManager[None]],
) -> bool:
    """Add vectors of this embedder to entries of the space that have no such vectors. A call
    handles a few hundred entries at most. Returns whether all entries have such vectors then.

    Such entries were stored with another embedder, without an embedder, or while the embedder was
    unavailable. The entries with some keys are changed inside the context manager `changing(keys)`.
    """
    model, after = model_of(embedder), ""
    end = monotonic() + _RENEWAL_S
    for number in range(_BATCHES):
        if number and monotonic() > end:
            break
        old = await store.find_entries(space, after=after, not_of_model=model, limit=_BATCH)
        if not old:
            return True
        after = old[-1].key
        vectors = await vectors_of(embedder, [entry.text for entry in old])
        if vectors is None:
            return False
        new = [
            replace(entry, vector=vector, model=model)
            for entry, vector in zip(old, vectors, strict=True)
        ]
        async with changing([entry.key for entry in new]):
            await store.put_vectors(new)
    return not await store.find_entries(space, not_of_model=model, limit=1)
