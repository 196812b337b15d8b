"""Long-term memory of agents, shared by all sessions of a user or of the app.

Every call names the owner of the memory: `user`, or `shared` for the memory of the whole app.
Because the key of a memory may be any text, requests have it in the query and not in the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import AsyncStream, Called, calls, lists, streams
from ekiden.api.methods.endpoint import Param, endpoint
from ekiden.api.methods.values import MEMORY_KEY, PLAIN, SAID, Pages
from ekiden.core.documents import Value
from ekiden.core.roles import FoundBy
from ekiden.memory.search import MAX_CONTENT, MAX_KEY, MAX_TOP_K

Owner: TypeAlias = Annotated[
    str | None,
    Param(
        "The user who owns the memories. Leave it out with `shared`.",
        min_length=1,
        max_length=500,
        pattern=PLAIN,
        examples=("u-17",),
        in_query=True,
    ),
]
Shared: TypeAlias = Annotated[
    bool,
    Param(
        "Use the memories that all users of the app share, instead of one user's memories.",
        in_query=True,
    ),
]
Key: TypeAlias = Annotated[
    str,
    Param(
        "The memory's key.",
        min_length=1,
        max_length=MAX_KEY,
        pattern=MEMORY_KEY,
        examples=("colour",),
        in_query=True,
    ),
]
Content: TypeAlias = Annotated[
    str,
    Param(
        "The text to remember.",
        min_length=1,
        max_length=MAX_CONTENT,
        examples=("Her favourite colour is blue.",),
        # Only for the document: a blank text is refused with `memory.invalid`.
        schema={"pattern": SAID},
    ),
]
Metadata: TypeAlias = Annotated[Mapping[str, Any] | None, Param("Metadata.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry(Value):
    """A stored memory."""

    key: str
    content: str
    metadata: Mapping[str, Any]
    stored_at: float
    """When the memory was stored, in seconds since 1970."""
    agent: str | None
    """The agent that stored the memory. `null` if no agent of the team stored it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory(MemoryEntry):
    """A search result."""

    score: float
    """The score of the match, from 0 to 1. Higher is better."""
    found_by: FoundBy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemories(Value):
    """Search results, best match first."""

    items: Sequence[FoundMemory]
    next_cursor: str | None = None
    """Always `null`, because there is only one page."""
    notes: Sequence[str]
    """Notes for people about memories that could not be searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory(Value):
    """The key of a stored memory."""

    key: str
    stored: Literal[True]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenMemories(Value):
    """The number of deleted memories."""

    forgotten: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDelivery(Value):
    """The changes that were sent to one back end."""

    backend: str
    delivered: int
    waiting: int
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDeliveries(Value):
    """The changes that were sent to the external memory services."""

    items: Sequence[MemoryDelivery]
    next_cursor: str | None = None
    """Always `null`, because there is only one page."""


class MemoryApi(Protocol):
    """The memories of a user, or of the whole app. Every call needs exactly one of `user` and
    `shared`, and otherwise raises `RequestInvalid`."""

    @endpoint("GET", "/memory", scope="read", cursor=PLAIN)
    def list(self, *, user: Owner = None, shared: Shared = False) -> Pages[MemoryEntry]:
        """List memories, sorted by key."""
        ...

    @endpoint("POST", "/memory", scope="run", status=201, problems=(413,), location="get")
    async def store(
        self,
        content: Content,
        *,
        key: Annotated[
            str | None,
            Param(
                "The key of the memory. Default: a key made from the content.",
                min_length=1,
                max_length=MAX_KEY,
                pattern=MEMORY_KEY,
            ),
        ] = None,
        metadata: Metadata = None,
        user: Owner = None,
        shared: Shared = False,
    ) -> StoredMemory:
        """Store a memory. A memory with the same key is replaced."""
        ...

    @endpoint("DELETE", "/memory", scope="admin")
    async def clear(self, *, user: Owner = None, shared: Shared = False) -> ForgottenMemories:
        """Delete all memories of a user, or of the whole app."""
        ...

    @endpoint("GET", "/memory/entry", scope="read", problems=(404,))
    async def get(self, key: Key, *, user: Owner = None, shared: Shared = False) -> MemoryEntry:
        """Get one memory."""
        ...

    @endpoint("PUT", "/memory/entry", scope="run", problems=(413,))
    async def put(
        self,
        key: Key,
        content: Content,
        *,
        metadata: Metadata = None,
        user: Owner = None,
        shared: Shared = False,
    ) -> StoredMemory:
        """Store a memory under this key. An existing memory with this key is replaced."""
        ...

    @endpoint("DELETE", "/memory/entry", scope="run", status=204, problems=(404,))
    async def forget(self, key: Key, *, user: Owner = None, shared: Shared = False) -> None:
        """Delete one memory."""
        ...

    @endpoint("GET", "/memory/search", scope="read", problems=(502,))
    async def search(
        self,
        q: Annotated[
            str,
            Param("The text to search for.", max_length=4000, pattern=PLAIN, examples=("colour",)),
        ],
        *,
        user: Owner = None,
        shared: Shared = False,
        meaning: Annotated[
            bool,
            Param(
                "Also search by meaning, with the model in the setting `memory.embedding_model`."
            ),
        ] = False,
        limit: Annotated[
            int | None,
            Param(
                "The maximum number of results. Default: the setting `memory.top_k`.",
                ge=1,
                le=MAX_TOP_K,
            ),
        ] = None,
        threshold: Annotated[
            float | None,
            Param(
                (
                    "The lowest similarity of a result. Default: the setting "
                    "`memory.similarity_threshold`."
                ),
                ge=0,
                le=1,
            ),
        ] = None,
    ) -> FoundMemories:
        """Search memories, best match first. Agents use the same search in their tool `recall`.
        There is only one page."""
        ...

    @endpoint("GET", "/memory/export", scope="read", file="memory.jsonl")
    def export(self, *, user: Owner = None, shared: Shared = False) -> AsyncStream[MemoryEntry]:
        """Export all memories as JSON lines, sorted by key."""
        ...

    @endpoint("POST", "/memory/sync", scope="run")
    async def sync(self) -> MemoryDeliveries:
        """Send pending memory changes to the external memory services."""
        ...


class CalledMemory(Called):
    """`MemoryApi` for synchronous code."""

    list = lists(MemoryApi.list)
    store = calls(MemoryApi.store)
    clear = calls(MemoryApi.clear)
    get = calls(MemoryApi.get)
    put = calls(MemoryApi.put)
    forget = calls(MemoryApi.forget)
    search = calls(MemoryApi.search)
    export = streams(MemoryApi.export)
    sync = calls(MemoryApi.sync)
