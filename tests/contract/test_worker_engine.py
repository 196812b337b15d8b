"""Workers keep the contract of engines."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing.engine_contract import EngineUnderTest, QueueEngineContract
from tests.support.engines import WorkerEngine


class TestWorkerOnSqlite(QueueEngineContract):
    @pytest.fixture
    async def engine(self, tmp_path: Path) -> AsyncIterator[EngineUnderTest]:
        async with SqliteStore(tmp_path / "ekiden.db") as store:
            engine = WorkerEngine(store)
            yield engine
            await engine.stop(drain=False)


class TestWorkerOnPostgres(QueueEngineContract):
    @pytest.fixture
    async def engine(self, postgres_store: PostgresStore) -> AsyncIterator[EngineUnderTest]:
        engine = WorkerEngine(postgres_store)
        yield engine
        await engine.stop(drain=False)
