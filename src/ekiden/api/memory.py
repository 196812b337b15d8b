"""Memory: what agents remember beyond a session.

Whose memory is meant is always said: `user`, or `shared` for what the whole app remembers. A key
may be any text, so it is a parameter of the query and no part of the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists, streams
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.streams import AsyncStream
from ekiden.api.texts import MEMORY_KEY, PLAIN
from ekiden.core.memory import FoundBy
from ekiden.core.values.documents import Value
from ekiden.memory.limits import MAX_CONTENT, MAX_KEY, MAX_TOP_K

OfUser: TypeAlias = Annotated[
    str | None,
    Told(
        "Whose memory; or `shared`.",
        min_length=1,
        max_length=500,
        pattern=PLAIN,
        examples=("u-17",),
        in_query=True,
    ),
]
Shared: TypeAlias = Annotated[
    bool, Told("What the whole app remembers, instead of one user's memory.", in_query=True)
]
Key: TypeAlias = Annotated[
    str,
    Told(
        "The key it is remembered under.",
        min_length=1,
        max_length=MAX_KEY,
        pattern=MEMORY_KEY,
        examples=("colour",),
        in_query=True,
    ),
]
Content: TypeAlias = Annotated[
    str,
    Told(
        "What to remember.",
        min_length=1,
        max_length=MAX_CONTENT,
        examples=("Her favourite colour is blue.",),
    ),
]
Metadata: TypeAlias = Annotated[Mapping[str, Any] | None, Told("What belongs to it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry(Value):
    """Something that is remembered."""

    key: str
    content: str
    metadata: Mapping[str, Any]
    stored_at: float
    """Seconds since 1970."""
    agent: str | None
    """Who remembered it; `null`: nobody of the team."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory(MemoryEntry):
    """A memory that was looked for."""

    score: float
    """0 to 1, higher is better."""
    found_by: FoundBy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemories(Value):
    """What was found, the best first."""

    items: Sequence[FoundMemory]
    next_cursor: str | None = None
    """There is one page: `null`."""
    notes: Sequence[str]
    """What could not be looked at, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory(Value):
    """Where something is remembered now."""

    key: str
    stored: Literal[True]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenMemories(Value):
    """How many memories are gone."""

    forgotten: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDelivery(Value):
    """What a back end was told."""

    backend: str
    delivered: int
    waiting: int
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDeliveries(Value):
    """What back ends were told."""

    items: Sequence[MemoryDelivery]
    next_cursor: str | None = None
    """There is one page: `null`."""


class Memory(Protocol):
    """The memory of a user, or with `shared` that of the whole app; `RequestInvalid` unless exactly
    one of them is named."""

    @endpoint("GET", "/memory", scope="read", cursor=PLAIN)
    def list(self, *, user: OfUser = None, shared: Shared = False) -> Pages[MemoryEntry]:
        """List what is remembered, by key."""
        ...

    @endpoint("POST", "/memory", scope="run", status=201, problems=(413,), location="get")
    async def store(
        self,
        content: Content,
        *,
        key: Annotated[
            str | None,
            Told(
                "The key; else one is made from the content.",
                min_length=1,
                max_length=MAX_KEY,
                pattern=MEMORY_KEY,
            ),
        ] = None,
        metadata: Metadata = None,
        user: OfUser = None,
        shared: Shared = False,
    ) -> StoredMemory:
        """Remember something, in the place of what is under the same key."""
        ...

    @endpoint("DELETE", "/memory", scope="admin")
    async def clear(self, *, user: OfUser = None, shared: Shared = False) -> ForgottenMemories:
        """Forget everything: of one user, or what the whole app remembers."""
        ...

    @endpoint("GET", "/memory/entry", scope="read", problems=(404,))
    async def get(self, key: Key, *, user: OfUser = None, shared: Shared = False) -> MemoryEntry:
        """One memory."""
        ...

    @endpoint("PUT", "/memory/entry", scope="run", problems=(413,))
    async def put(
        self,
        key: Key,
        content: Content,
        *,
        metadata: Metadata = None,
        user: OfUser = None,
        shared: Shared = False,
    ) -> StoredMemory:
        """Remember something under this key, in the place of what is there."""
        ...

    @endpoint("DELETE", "/memory/entry", scope="run", status=204, problems=(404,))
    async def forget(self, key: Key, *, user: OfUser = None, shared: Shared = False) -> None:
        """Forget one memory."""
        ...

    @endpoint("GET", "/memory/search", scope="read", problems=(502,))
    async def search(
        self,
        q: Annotated[
            str, Told("What it is about.", max_length=4000, pattern=PLAIN, examples=("colour",))
        ],
        *,
        user: OfUser = None,
        shared: Shared = False,
        meaning: Annotated[
            bool, Told("By meaning, too, with the setting `memory.embedding_model`.")
        ] = False,
        limit: Annotated[
            int | None, Told("How many; else `memory.top_k`.", ge=1, le=MAX_TOP_K)
        ] = None,
        threshold: Annotated[
            float | None, Told("How near; else as the settings say.", ge=0, le=1)
        ] = None,
    ) -> FoundMemories:
        """Find memories, the best first, as agents do with the tool recall. There is one page."""
        ...

    @endpoint("GET", "/memory/export", scope="read", file="memory.jsonl")
    def export(self, *, user: OfUser = None, shared: Shared = False) -> AsyncStream[MemoryEntry]:
        """All memories, by key, as JSON lines."""
        ...

    @endpoint("POST", "/memory/sync", scope="run")
    async def sync(self) -> MemoryDeliveries:
        """Tell back ends that have copies of what is remembered what waits to be sent to them."""
        ...


class CalledMemory(Called):
    """`Memory`, called."""

    list = lists(Memory.list)
    store = calls(Memory.store)
    clear = calls(Memory.clear)
    get = calls(Memory.get)
    put = calls(Memory.put)
    forget = calls(Memory.forget)
    search = calls(Memory.search)
    export = streams(Memory.export)
    sync = calls(Memory.sync)
