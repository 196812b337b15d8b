"""The in-memory store keeps the contract of a store."""

from collections.abc import AsyncIterator

import pytest

from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    looks_into_events = False

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with MemoryStore() as store:
            yield store

    async def advance_clock(self, store: Store, seconds: float) -> None:
        assert isinstance(store, MemoryStore)
        store.advance(seconds)
