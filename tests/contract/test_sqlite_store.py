"""The SQLite store keeps the contract of a store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.storage.base import Store
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.clock import LeaseClock
from ekiden.testing.store_contract import StoreContract


class MovableClock:
    """Milliseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def lease_clock(self) -> MovableClock:
        self._time = MovableClock()
        return self._time

    @pytest.fixture
    async def store(self, tmp_path: Path, lease_clock: MovableClock) -> AsyncIterator[Store]:
        async with self._handle(tmp_path, lease_clock) as store:
            yield store

    @pytest.fixture
    async def other(
        self, store: Store, tmp_path: Path, lease_clock: MovableClock
    ) -> AsyncIterator[Store]:
        async with self._handle(tmp_path, lease_clock) as other:
            yield other

    async def advance_clock(self, store: Store, seconds: float) -> None:
        self._time.ms += int(seconds * 1000)

    def _handle(self, folder: Path, time: MovableClock) -> SqliteStore:
        return SqliteStore(
            folder / "ekiden.db", lease_clock=LeaseClock(boot="test", now_ms=time.now_ms)
        )
