"""Errors of long-term memory.

EkidenError
└── MemoryFailed
    ├── NoMemory                  the session has no user, or the agent has no memory
    ├── MemoryInvalid
    ├── MemoryTooLarge
    ├── MemoryNotFound
    ├── NoEmbedder                search by meaning needs an embedder
    ├── UnknownBackend
    └── BackendUnavailable        a back end is down, slow, or refuses a request
"""

from __future__ import annotations

from collections.abc import Collection

from ekiden.core.errors import EkidenError
from ekiden.core.text.wording import suggestion


class MemoryFailed(EkidenError):
    """Base class of memory errors."""

    code = "memory.error"


class NoMemory(MemoryFailed):
    """The session has no user, or the agent has no memory. The message names the setting to
    change."""

    code = "memory.none"


class MemoryInvalid(MemoryFailed):
    """A key, the content or the metadata is invalid. Nothing was stored."""

    code = "memory.invalid"


class MemoryTooLarge(MemoryFailed):
    """A key, the content or the metadata is longer than `limit`. Its length is `size`. Nothing was
    stored."""

    code = "memory.too_large"

    def __init__(self, what: str, size: int, *, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"{what} has {size:,} {unit}; the maximum is {limit:,}: shorten it")
        self.size, self.limit = size, limit


class MemoryNotFound(MemoryFailed):
    """No memory has this key."""

    code = "memory.not_found"

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no memory with the key {key[:200]!r}")
        self.key = key


class NoEmbedder(MemoryFailed):
    """A memory of the type `vector` has no embedder. Install the extra `local`, set another
    `memory.embedding_model`, or use the type `key_value`."""

    code = "memory.no_embedder"


class UnknownBackend(MemoryFailed):
    """A memory names a back end that is not registered."""

    code = "memory.backend_unknown"

    def __init__(self, name: str, *, known: Collection[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"no memory back end is called {name[:80]!r}; known: {listed}{suggestion(name, known)}"
        )
        self.name = name


class BackendUnavailable(MemoryFailed):
    """A memory back end was unavailable or slow, or it refused a request. Runs are not affected:
    writes are queued, and searches use the store."""

    code = "memory.backend_unavailable"

    def __init__(self, name: str, problem: str, *, retry: bool = True) -> None:
        super().__init__(f"the memory back end {name!r} cannot be used now: {problem}")
        self.name, self.problem = name, problem
        self.retry = retry
        """Whether a retry may help. `False` if the back end refused the data."""
