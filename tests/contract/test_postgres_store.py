"""The PostgreSQL store keeps the contract of a store."""

from collections.abc import AsyncIterator

import pytest

from ekiden.storage.base import Store
from ekiden.storage.postgres import PostgresStore
from ekiden.testing.store_contract import StoreContract
from tests.support.sql import execute


class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def postgres_url(self, emptied_postgres_url: str) -> str:
        return emptied_postgres_url

    @pytest.fixture
    async def store(self, postgres_store: PostgresStore) -> Store:
        return postgres_store

    @pytest.fixture
    async def other(self, store: Store, postgres_url: str) -> AsyncIterator[Store]:
        async with PostgresStore(postgres_url) as other:
            yield other

    @pytest.fixture(autouse=True)
    def _know_url(self, postgres_url: str) -> None:
        self.url = postgres_url

    async def advance_clock(self, store: Store, seconds: float) -> None:
        for table, column in (
            ("sessions", "lease_until"),
            ("sessions", "lapses_at"),
            ("sessions", "ready_at"),
            ("messages", "due_at"),
            ("messages", "expires_at"),
        ):
            await execute(
                self.url,
                f"update {table} set {column} = {column} - $1 * interval '1 second'",
                seconds,
            )
