"""What can go wrong with long-term memory.

EkidenError
└── MemoryFailed
    ├── NoMemory                  nobody's memory is meant, or the agent has none
    ├── MemoryInvalid
    ├── MemoryTooLarge
    ├── MemoryNotFound
    ├── NoEmbedder                found by meaning, without anything that knows meanings
    ├── UnknownBackend
    └── BackendUnavailable        a back end did not do what it was asked
"""

from __future__ import annotations

from collections.abc import Collection

from ekiden.core.errors import EkidenError
from ekiden.core.text.suggest import suggestion


class MemoryFailed(EkidenError):
    """Something could not be remembered, found or forgotten."""

    code = "memory.error"


class NoMemory(MemoryFailed):
    """There is no memory here: no user or app whose it would be, or none for the agent."""

    code = "memory.none"


class MemoryInvalid(MemoryFailed):
    """A key, a content or what goes with it cannot be kept; nothing was stored."""

    code = "memory.invalid"


class MemoryTooLarge(MemoryFailed):
    """A key, a content or what goes with it is longer than what is kept; nothing was stored."""

    code = "memory.too_large"

    def __init__(self, what: str, size: int, *, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"{what} has {size:,} {unit}; at most {limit:,} are kept: shorten it")
        self.size, self.limit = size, limit


class MemoryNotFound(MemoryFailed):
    """Nothing is remembered under this key."""

    code = "memory.not_found"

    def __init__(self, key: str) -> None:
        super().__init__(f"nothing is remembered under {key[:200]!r}")
        self.key = key


class NoEmbedder(MemoryFailed):
    """A memory of the type `vector` needs an embedding, and there is none."""

    code = "memory.no_embedder"


class UnknownBackend(MemoryFailed):
    """A memory is to be kept in a back end that nobody registered."""

    code = "memory.backend_unknown"

    def __init__(self, name: str, *, known: Collection[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"no memory back end is called {name[:80]!r}; known: {listed}{suggestion(name, known)}"
        )
        self.name = name


class BackendUnavailable(MemoryFailed):
    """A back end was away, slow, or refused.

    Runs never see it: what is to be sent waits in the store, and questions are answered from
    there.
    """

    code = "memory.backend_unavailable"

    def __init__(self, name: str, problem: str, *, retry: bool = True) -> None:
        super().__init__(f"the memory back end {name!r} cannot be used now: {problem}")
        self.name, self.problem = name, problem
        self.retry = retry
        """Whether the same may go well later: not for what it refuses as wrong."""
