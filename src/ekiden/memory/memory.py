"""`Memory`: long-term memory in a store."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from ekiden.core.checks.fields import checked_arguments
from ekiden.core.errors.memory import BackendUnavailable
from ekiden.core.profile import MemorySettings
from ekiden.core.roles import MemoryRecord, Recall
from ekiden.embeddings.base import Embedder
from ekiden.memory.base import SEARCH_TIMEOUT_S, RemoteCopy, backend, remote_backend, remote_copy_of
from ekiden.memory.outbox import (
    DeliveryReport,
    add_mirror,
    announced,
    backends_of,
    deliver,
    is_behind,
    queue_of,
    refused_by,
)
from ekiden.memory.search import (
    checked_content,
    checked_key,
    checked_metadata,
    checked_threshold,
    checked_top_k,
    default_embedder,
    entry_of,
    fused,
    key_of,
    memory_record,
    model_of,
    renew,
    space_of,
    vectors_of,
)
from ekiden.storage.base import SearchHit, Store

NEARNESS = 0.2
"""The default minimum cosine of a match. With the local embedding, the cosine of a question and a
memory that answers the question is 0.2 to 0.6. The cosine of unrelated texts is below 0.2."""
_MORE = 4
"""Each of the two searches returns this many times as many hits, before they are merged."""
_ROUNDS = 2
"""The number of deliveries after a change: of the change, and of messages that it causes."""
_MAX_QUERY = 4_000
"""The number of characters of a query that are used."""

_log = logging.getLogger("ekiden.memory")
_DEFAULTS = MemorySettings()
_Notes: TypeAlias = list[str]
_Found: TypeAlias = list[MemoryRecord]


class Memory:
    """The memories of one user of an app, or of the app itself. It implements `LongTermMemory`.

    The store has all memories and their vectors. With `settings.backend`, an external service also
    has copies, and does the search by meaning. If the service is unavailable, the store does the
    search. For example::

        memory = Memory(store, app="shop", user="u-17", settings=MemorySettings(type="vector"))
        await memory.store("colour", "Her favourite colour is blue.")
        [best] = await memory.retrieve("what colour does she like?", top_k=1)
    """

    @checked_arguments
    def __init__(
        self,
        store: Store,
        *,
        user: str | None = None,
        app: str | None = None,
        settings: MemorySettings = _DEFAULTS,
        embedder: Embedder | Callable[[], Embedder] | None = None,
        agent: str | None = None,
    ) -> None:
        """`embedder` is an embedder, or a function that returns an embedder. Only memories of the
        type `vector` need an embedder.

        The default embedder runs in this process. The default of `app` is ``ekiden``, as in the
        command `ekiden memory`. The name `agent` is recorded with each stored memory.
        """
        self._store = store
        self._settings = settings
        self._user, self._app, self._agent = user, app, agent
        self._given = embedder
        self._embedder: Embedder | None = None
        self._mirror: RemoteCopy | None = None

    @property
    def space(self) -> str:
        """The name under which the store keeps these memories, derived from the app and the user.
        Raises `NoMemory` if the memories belong to a user, but no user is given."""
        return space_of(self._settings.scope, app=self._app, user=self._user)

    async def store(
        self, key: str | None, content: str, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """See `LongTermMemory.store`."""
        space = self.space
        content = checked_content(content)
        key = key_of(content) if key is None else checked_key(key)
        entry = entry_of(
            space,
            key,
            content,
            checked_metadata(metadata),
            agent=self._agent,
            stored_at_us=await self._store.now_us(),
        )
        if self._is_vector:
            vectors = await vectors_of(self._meanings(), [entry.text])
            if vectors is not None:
                entry = replace(entry, vector=vectors[0], model=model_of(self._meanings()))
        async with self._changing([key]):
            await self._store.put_entries([entry])
        return key

    async def get(self, key: str) -> MemoryRecord | None:
        """See `LongTermMemory.get`."""
        found = await self._store.find_entries(self.space, keys=[checked_key(key)], limit=1)
        return memory_record(found[0]) if found else None

    async def retrieve(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> _Found:
        """See `LongTermMemory.retrieve`."""
        return list((await self.recall(query, top_k, threshold)).found)

    async def recall(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> Recall:
        """See `LongTermMemory.recall`."""
        space, settings = self.space, self._settings
        count = checked_top_k(settings.top_k if top_k is None else top_k)
        least = checked_threshold(settings.threshold if threshold is None else threshold)
        query = query[:_MAX_QUERY].encode("utf-8", "replace").decode().replace("\x00", " ")
        if not query.strip():
            return Recall()
        words = await self._store.search_text(space, query, limit=count * _MORE)
        notes: _Notes = []
        meaning = await self._by_meaning(query, count * _MORE, notes) if self._is_vector else ()
        found = fused(words, meaning, top_k=count, threshold=least, nearness=NEARNESS)
        return Recall(found=found, notes=notes)

    async def forget(self, key: str) -> bool:
        """See `LongTermMemory.forget`."""
        space, keys = self.space, [checked_key(key)]
        async with self._changing(keys):
            return bool(await self._store.delete_entries(space, keys=keys))

    async def list(self, *, after: str = "", limit: int = 100) -> Sequence[MemoryRecord]:
        """See `LongTermMemory.list`."""
        found = await self._store.find_entries(self.space, after=after, limit=limit)
        return [memory_record(entry) for entry in found]

    async def clear(self) -> int:
        """See `LongTermMemory.clear`."""
        space = self.space
        async with self._changing(None):
            return await self._store.delete_entries(space)

    async def deliver(self) -> DeliveryReport:
        """Send the changes that the external service (`settings.backend`) does not have yet, for
        all users. If the service does not accept a change, the change is sent again later."""
        mirror, total = self._mirrored(), DeliveryReport()
        while mirror is not None:
            one = await deliver(self._store, mirror, model=model_of(self._meanings()))
            total = DeliveryReport(
                delivered=total.delivered + one.delivered, problem=total.problem or one.problem
            )
            if not one.delivered:
                queues = (queue_of(mirror.name), refused_by(mirror.name))
                waiting = sum([await self._store.queue_depth(queue) for queue in queues])
                return replace(total, waiting=waiting)
        return total

    @property
    def _is_vector(self) -> bool:
        return self._settings.type == "vector"

    def _meanings(self) -> Embedder:
        if self._embedder is None:
            given = self._given or default_embedder
            self._embedder = given() if callable(given) else given
        return self._embedder

    def _mirrored(self) -> RemoteCopy | None:
        """The back end; `None` without one, and for memories without vectors."""
        name = remote_backend(self._settings.backend)
        if self._mirror is None and name is not None and self._is_vector:
            self._mirror = remote_copy_of(backend(name, dimensions=self._meanings().dimensions))
        return self._mirror

    @asynccontextmanager
    async def _changing(self, keys: Collection[str] | None) -> AsyncIterator[None]:
        """Announce changes of these entries, or of all, to every back end with copies."""
        names = await self._mirror_names()
        async with announced(self._store, names, self.space, keys):
            yield
        if names:
            await self._deliver_now()

    async def _mirror_names(self) -> Sequence[str]:
        """The back ends with copies, including that of this memory."""
        names, mirror = await backends_of(self._store, self.space), self._mirrored()
        if mirror is None or mirror.name in names:
            return names
        await add_mirror(self._store, self.space, mirror.name)
        return [*names, mirror.name]

    async def _deliver_now(self) -> None:
        """Send pending changes to the back end, unless it failed recently."""
        mirror = self._mirrored()
        if mirror is None or mirror.is_resting:
            return
        model = model_of(self._meanings())
        for _ in range(_ROUNDS):
            sent = await deliver(self._store, mirror, model=model, timeout_s=SEARCH_TIMEOUT_S)
            if not sent.delivered:
                return

    async def _by_meaning(self, query: str, limit: int, notes: _Notes) -> Sequence[SearchHit]:
        embedder, space = self._meanings(), self.space
        names = await self._mirror_names()
        is_complete = await renew(
            self._store, space, embedder, changing=partial(announced, self._store, names, space)
        )
        vectors = await vectors_of(embedder, [query])
        if vectors is None:
            notes.append("The embedding is not available now: this was found by words only.")
            return ()
        if not is_complete:
            notes.append("Some memories have no new vectors yet: they are found by words only.")
        if not any(vectors[0]):
            return ()
        remote = await self._search_remote(vectors[0], limit, notes)
        if remote is not None:
            return remote
        return await self._store.search_vectors(
            space, vectors[0], model=model_of(embedder), limit=limit
        )

    async def _search_remote(
        self, vector: Sequence[float], limit: int, notes: _Notes
    ) -> Sequence[SearchHit] | None:
        """The hits of the back end; `None` if it is unavailable or behind.

        It returns only keys, which are looked up in the space: so it cannot reveal another user's
        data.
        """
        mirror = self._mirrored()
        if mirror is None:
            return None
        if not mirror.is_resting:
            await self._deliver_now()
        if mirror.is_resting:
            notes.append(f"{mirror.name} is not available now: the local copy was searched.")
            return None
        model, space = model_of(self._meanings()), self.space
        if await is_behind(self._store, mirror.name, space):
            return None
        try:
            hits = await mirror.search(space, vector, model=model, limit=limit)
        except BackendUnavailable as exc:
            notes.append(f"{mirror.name} is not available now: the local copy was searched.")
            _log.info("the local copy is searched: %s", exc)
            return None
        found = await self._store.find_entries(
            space, keys={hit.key for hit in hits}, limit=len(hits) or 1
        )
        entries = {entry.key: entry for entry in found if entry.model == model}
        return [
            SearchHit(entry=entries[hit.key], score=min(1.0, max(0.0, hit.score)))
            for hit in hits
            if hit.key in entries
        ]
