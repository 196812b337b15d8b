"""The long-term memory of agents in a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any

from ekiden.api import memory as api
from ekiden.api.local.context import LocalPart
from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.values import Page, Pages
from ekiden.core.errors.memory import MemoryFailed, MemoryNotFound
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.profile import MemoryKind, MemorySettings
from ekiden.core.roles import MemoryRecord
from ekiden.memory import DeliveryReport, Memory, used_backends
from ekiden.memory.outbox import queue_of
from ekiden.project.run_tasks import embedder_of

_PAGE = 500


class LocalMemory(LocalPart, api.MemoryApi):
    """`MemoryApi` on a store in this process."""

    def list(self, *, user: str | None = None, shared: bool = False) -> Pages[api.MemoryEntry]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.MemoryEntry]:
            memory = self._memory(user, shared)
            found = await memory.list(after=cursor or "", limit=limit + 1)
            shown = [entry_of(each) for each in found[:limit]]
            return Page(items=shown, next_cursor=shown[-1].key if len(found) > limit else None)

        return Pages(fetch)

    async def store(
        self,
        content: str,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user: str | None = None,
        shared: bool = False,
    ) -> api.StoredMemory:
        stored = await self._memory(user, shared).store(key, content, metadata)
        return api.StoredMemory(key=stored, stored=True)

    async def clear(
        self, *, user: str | None = None, shared: bool = False
    ) -> api.ForgottenMemories:
        return api.ForgottenMemories(forgotten=await self._memory(user, shared).clear())

    async def get(
        self, key: str, *, user: str | None = None, shared: bool = False
    ) -> api.MemoryEntry:
        found = await self._memory(user, shared).get(key)
        if found is None:
            raise MemoryNotFound(key)
        return entry_of(found)

    async def put(
        self,
        key: str,
        content: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        user: str | None = None,
        shared: bool = False,
    ) -> api.StoredMemory:
        return await self.store(content, key=key, metadata=metadata, user=user, shared=shared)

    async def forget(self, key: str, *, user: str | None = None, shared: bool = False) -> None:
        if not await self._memory(user, shared).forget(key):
            raise MemoryNotFound(key)

    async def search(
        self,
        q: str,
        *,
        user: str | None = None,
        shared: bool = False,
        meaning: bool = False,
        limit: int | None = None,
        threshold: float | None = None,
    ) -> api.FoundMemories:
        memory = self._memory(user, shared, kind="vector" if meaning else "key_value")
        if meaning:
            # The first use may load a model from disk.
            defaults = self._context.settings.memory
            await asyncio.to_thread(embedder_of, defaults.embedding_model, defaults.dimension)
        answer = await memory.recall(q, limit, threshold)
        return api.FoundMemories(
            items=[found_of(each) for each in answer.found], notes=list(answer.notes)
        )

    def export(
        self, *, user: str | None = None, shared: bool = False
    ) -> AsyncStream[api.MemoryEntry]:
        return AsyncStream(self._everything(user, shared))

    async def sync(self) -> api.MemoryDeliveries:
        with self._context.one_at_a_time("sync"):
            names = await used_backends(self._store)
            return api.MemoryDeliveries(items=[await self._delivered(name) for name in names])

    async def _everything(
        self, user: str | None, shared: bool
    ) -> AsyncGenerator[api.MemoryEntry, None]:
        memory, after = self._memory(user, shared), ""
        while found := await memory.list(after=after, limit=_PAGE):
            for each in found:
                yield entry_of(each)
            after = found[-1].key

    async def _delivered(self, backend: str) -> api.MemoryDelivery:
        """Send the pending changes to a back end. An unknown back end is reported as a problem."""
        store = self._store
        memory = Memory(
            store,
            settings=MemorySettings(type="vector", backend=backend),
            embedder=self._embedder(),
        )
        try:
            report = await memory.deliver()
        except MemoryFailed as exc:
            waiting = await store.queue_depth(queue_of(backend))
            report = DeliveryReport(waiting=waiting, problem=str(exc))
        return api.MemoryDelivery(
            backend=backend,
            delivered=report.delivered,
            waiting=report.waiting,
            problem=report.problem,
        )

    def _memory(self, user: str | None, shared: bool, *, kind: MemoryKind = "key_value") -> Memory:
        """The memory to use; `RequestInvalid` unless exactly one owner is given."""
        if shared == (user is not None):
            raise RequestInvalid(
                "give either `user`, or `shared=true` for the memories of the whole app"
            )
        defaults = self._context.settings.memory
        return Memory(
            self._store,
            user=user,
            app=self._context.stored_app,
            settings=MemorySettings(
                type=kind,
                scope="app" if shared else "user",
                top_k=defaults.top_k,
                threshold=defaults.similarity_threshold,
            ),
            embedder=self._embedder(),
        )

    def _embedder(self) -> Any:
        defaults = self._context.settings.memory
        return partial(embedder_of, defaults.embedding_model, defaults.dimension)


def entry_of(record: MemoryRecord) -> api.MemoryEntry:
    """Convert a memory to the value of the interface."""
    return api.MemoryEntry(**_facts(record))


def found_of(record: MemoryRecord) -> api.FoundMemory:
    """Convert a search result to the value of the interface."""
    score = round(record.score or 0.0, 6)
    return api.FoundMemory(**_facts(record), score=score, found_by=record.found_by)


def _facts(record: MemoryRecord) -> dict[str, Any]:
    return {
        "key": record.key,
        "content": record.content,
        "metadata": dict(record.metadata),
        "stored_at": record.stored_at_us / 1e6,
        "agent": record.agent,
    }
