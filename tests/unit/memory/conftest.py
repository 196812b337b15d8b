"""The stores that memories are kept in, and a back end that can be away."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.errors.memory import BackendUnavailable
from ekiden.memory import MemoryBackend, RemoteEntry, RemoteHit, register_backend
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore


class Shelf:
    """A back end in this process; it can be away, refuse some keys, or lie."""

    name = "shelf"

    def __init__(self) -> None:
        self.spaces: dict[str, dict[str, RemoteEntry]] = {}
        self.is_disconnected = False
        self.refused: set[str] = set()
        self.says: list[RemoteHit] | None = None
        self.calls: list[str] = []
        self.before_upsert: Any = None

    async def upsert(self, space: str, entries: Sequence[RemoteEntry]) -> None:
        self._called("upsert")
        if self.before_upsert is not None:
            hook, self.before_upsert = self.before_upsert, None
            await hook()
        for entry in entries:
            if entry.key in self.refused:
                raise BackendUnavailable(self.name, f"{entry.key} is refused", retry=False)
        self.spaces.setdefault(space, {}).update({entry.key: entry for entry in entries})

    async def delete(self, space: str, keys: Sequence[str]) -> None:
        self._called("delete")
        for key in keys:
            self.spaces.get(space, {}).pop(key, None)

    async def clear(self, space: str) -> None:
        self._called("clear")
        self.spaces.pop(space, None)

    async def search(
        self, space: str, vector: Sequence[float], *, model: str, limit: int
    ) -> Sequence[RemoteHit]:
        self._called("search")
        if self.says is not None:
            return self.says
        hits = [
            RemoteHit(
                key=entry.key,
                score=sum(a * b for a, b in zip(vector, entry.vector, strict=True)),
            )
            for entry in self.spaces.get(space, {}).values()
            if entry.model == model
        ]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    async def close(self) -> None:
        return None

    def keys(self) -> list[str]:
        return sorted(key for entries in self.spaces.values() for key in entries)

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.is_disconnected:
            raise BackendUnavailable(self.name, "it is away")


@pytest.fixture
def shelf() -> Shelf:
    made = Shelf()

    def factory(options: Any) -> MemoryBackend:
        return made

    register_backend("shelf", factory)
    return made


@asynccontextmanager
async def fresh_postgres(server_url: str) -> AsyncIterator[Store]:
    """An empty store in a schema of its own."""
    import asyncpg

    from ekiden.storage.postgres import PostgresStore

    schema = f"test_{os.urandom(6).hex()}"
    joint = "&" if "?" in server_url else "?"
    async with PostgresStore(f"{server_url}{joint}schema={schema}") as made:
        yield made
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute("set client_min_messages = warning")
        await connection.execute(f"drop schema if exists {schema} cascade")
    finally:
        await connection.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Each of the three."""
    if request.param == "postgres":
        async with fresh_postgres(request.getfixturevalue("postgres_server_url")) as made:
            yield made
        return
    local: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ekiden.db")
    )
    async with local:
        yield local


@pytest.fixture
async def quick_store() -> AsyncIterator[Store]:
    async with MemoryStore() as made:
        yield made
