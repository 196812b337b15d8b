"""What is remembered beyond a session, as agents' code sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

FoundBy: TypeAlias = Literal["words", "meaning", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """Something that was remembered.

    For example::

        for each in await ctx.memory.retrieve("her favourite colour"):
            print(each.key, each.content, each.score)
    """

    key: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON, as it was stored."""
    score: float | None = None
    """How near it is to the question, 0 to 1: the cosine of the meanings or the share of the
    question's words, weighted by how rare they are, whichever is more; `None` if nothing was
    asked."""
    found_by: FoundBy | None = None
    stored_at_us: int = 0
    """Microseconds since 1970."""
    agent: str | None = None
    """Who stored it; `None` if it was no agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The answer to a question to the memory."""

    found: Sequence[MemoryRecord] = ()
    """The best first."""
    notes: Sequence[str] = ()
    """What did not go as it was meant, such as a back end that is away; in sentences."""


class LongTermMemory(Protocol):
    """One user's memories, or one app's: no other's can be named or found.

    Every call raises `NoMemory` if there is nobody whose it would be.
    """

    async def store(
        self, key: str | None, content: str, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Remember `content` under `key`, in the place of what was there; gives the key.

        Without one it is made from the content, so that the same content is kept once.
        `MemoryTooLarge`, and `MemoryInvalid` for what cannot be kept; then nothing is stored.
        """
        ...

    async def get(self, key: str) -> MemoryRecord | None:
        """What is remembered under `key`."""
        ...

    async def retrieve(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> list[MemoryRecord]:
        """What the question is about, the best first; none for a question without words."""
        ...

    async def recall(
        self, query: str, top_k: int | None = None, threshold: float | None = None
    ) -> Recall:
        """As `retrieve`, with what did not go as it was meant."""
        ...

    async def forget(self, key: str) -> bool:
        """Remove it; `False` if there was nothing."""
        ...

    async def list(self, *, after: str = "", limit: int = 100) -> Sequence[MemoryRecord]:
        """All, by key, those above `after`."""
        ...

    async def clear(self) -> int:
        """Remove everything; how many there were."""
        ...
