"""The SQLite store keeps the contract of a store."""

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from ekiden.storage.base import Store
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing.store_contract import StoreContract
from tests.support.sqlite import MovableMilliseconds


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _time(self) -> None:
        self.time = MovableMilliseconds()

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with SqliteStore(tmp_path / "ekiden.db", lease_clock=self.time.clock) as store:
            yield store

    @pytest.fixture
    async def other(self, store: Store) -> AsyncIterator[Store]:
        async with SqliteStore(store.url, lease_clock=self.time.clock) as other:
            yield other

    async def advance_clock(self, store: Store, seconds: float) -> None:
        self.time.advance(seconds)

    async def let_wait(self, store: Store, seconds: float) -> None:
        earlier = "UPDATE sessions SET updated_us = updated_us - ?"
        db = apsw.Connection(store.url)
        db.execute(earlier, (int(seconds * 1e6),))
        db.close()
