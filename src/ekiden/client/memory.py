"""What agents remember beyond a session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ekiden.client.modes import M, Resource, answers, given, lists, streams
from ekiden.client.records import Delivery, FoundMemories, MemoryEntry
from ekiden.client.streams import Listing
from ekiden.core.jsonio import loads


class Memories(Resource[M]):
    """The memory of a user, or with `shared` that of the whole app: always say which."""

    @lists
    def list(self, *, user: str | None = None, shared: bool = False) -> Listing[MemoryEntry]:
        """All that is remembered, by key."""
        return Listing(path="/memory", params=_whose(user, shared), parse=MemoryEntry.of)

    @answers
    async def get(self, key: str, *, user: str | None = None, shared: bool = False) -> MemoryEntry:
        """One memory; `MemoryNotFound`."""
        params = {**_whose(user, shared), "key": key}
        return MemoryEntry.of(await self._wire.ask("GET", "/memory/entry", params=params))

    @answers
    async def search(
        self,
        text: str,
        *,
        user: str | None = None,
        shared: bool = False,
        meaning: bool = False,
        limit: int | None = None,
        threshold: float | None = None,
    ) -> FoundMemories:
        """Find memories, the best first, as agents do; `meaning`: not by words only."""
        more = given(limit=limit, threshold=threshold)
        params = {**_whose(user, shared), "q": text, "meaning": meaning, **more}
        answer = await self._wire.ask("GET", "/memory/search", params=params)
        return FoundMemories(
            items=tuple(map(MemoryEntry.of, answer["items"])), notes=tuple(answer["notes"])
        )

    @answers
    async def store(
        self,
        content: str,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user: str | None = None,
        shared: bool = False,
    ) -> str:
        """Remember something, in the place of what is under the same key; gives the key."""
        body = given(content=content, key=key, metadata=metadata)
        params = _whose(user, shared)
        stored: str = (await self._wire.ask("POST", "/memory", params=params, body=body))["key"]
        return stored

    @answers
    async def forget(self, key: str, *, user: str | None = None, shared: bool = False) -> None:
        """Forget one memory; `MemoryNotFound`."""
        params = {**_whose(user, shared), "key": key}
        await self._wire.ask("DELETE", "/memory/entry", params=params)

    @answers
    async def clear(self, *, user: str | None = None, shared: bool = False) -> int:
        """Forget everything; gives how much that was."""
        answer = await self._wire.ask("DELETE", "/memory", params=_whose(user, shared))
        forgotten: int = answer["forgotten"]
        return forgotten

    @streams
    async def export(
        self, *, user: str | None = None, shared: bool = False
    ) -> AsyncGenerator[MemoryEntry, None]:
        """All memories, by key, in one answer."""
        params = _whose(user, shared)
        async with self._wire.stream("GET", "/memory/export", params=params) as answer:
            async for line in answer.aiter_lines():
                if line:
                    yield MemoryEntry.of(loads(line))

    @answers
    async def sync(self) -> tuple[Delivery, ...]:
        """Tell back ends that have copies what waits to be sent to them."""
        answer = await self._wire.ask("POST", "/memory/sync")
        return tuple(map(Delivery.of, answer["items"]))


def _whose(user: str | None, shared: bool) -> Mapping[str, Any]:
    return {"shared": True} if shared else given(user=user)
