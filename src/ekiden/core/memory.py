"""Long-term memory, as agents' code sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from ekiden.core.dataclass import dataclass

FoundBy: TypeAlias = Literal["words", "meaning", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory.

    For example::

        for each in await ctx.memory.retrieve("her favourite colour"):
            print(each.key, each.content, each.score)
    """

    key: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The JSON that was stored with the memory."""
    score: float | None = None
    """The similarity to the query, from 0 to 1. It is the higher of two values. One is the cosine
    of the embeddings. The other is the share of the query's words that the memory contains,
    weighted by rarity. `None` without a query."""
    found_by: FoundBy | None = None
    stored_at_us: int = 0
    """Microseconds since 1970."""
    agent: str | None = None
    """The agent that stored it; `None` if it was not an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The result of a memory search."""

    found: Sequence[MemoryRecord] = ()
    """Best match first."""
    notes: Sequence[str] = ()
    """Problems, such as an unavailable back end; in sentences."""


class LongTermMemory(Protocol):
    """The memories of one user or one app; no others can be reached.

    Every call raises `NoMemory` if there is no user or app.
    """

    async def store(
        self, key: str | None, content: str, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Store `content` under `key`, replacing an older one; returns the key.

        Without a key it is made from the content, so that the same content is stored once.
        `MemoryTooLarge`, and `MemoryInvalid` for invalid data; then nothing is stored.
        """
        ...

    async def get(self, key: str) -> MemoryRecord | None:
        """The memory under `key`."""
        ...

    async def retrieve(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> list[MemoryRecord]:
        """Memories that match the question, best match first; none for an empty question."""
        ...

    async def recall(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> Recall:
        """Like `retrieve`, with notes about problems."""
        ...

    async def forget(self, key: str) -> bool:
        """Delete it; `False` if there was none."""
        ...

    async def list(self, *, after: str = "", limit: int = 100) -> Sequence[MemoryRecord]:
        """All memories by key, after `after`."""
        ...

    async def clear(self) -> int:
        """Delete all; returns their number."""
        ...
