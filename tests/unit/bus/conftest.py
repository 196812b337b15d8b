"""A bus on every kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from tests.unit.bus.places import Place


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A fresh PostgreSQL schema takes its time: only what it is most likely to break is tested on
    it every time."""
    for item in items:
        call = getattr(item, "callspec", None)
        test = getattr(item, "function", None)
        is_there = call is not None and call.params.get("open_store") == "postgres"
        if is_there and not getattr(test, "everywhere", False):
            item.add_marker(pytest.mark.slow)


OpenStore: TypeAlias = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens one database, as every process would."""
    if request.param == "memory":
        one = MemoryStore()
        return lambda: one
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "bus.db")
    url: str = request.getfixturevalue("postgres_url")
    return lambda: PostgresStore(url)


@pytest.fixture
async def place(open_store: OpenStore) -> AsyncIterator[Place]:
    """Where buses are, on one database."""
    async with AsyncExitStack() as exits:
        yield Place(open_store, exits)
