"""Programs that run their sessions themselves keep the contract of engines."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing.engine_contract import EngineContract, EngineUnderTest
from tests.support.engines import InlineEngine


class TestInlineInMemory(EngineContract):
    @pytest.fixture
    async def engine(self) -> AsyncIterator[EngineUnderTest]:
        async with MemoryStore() as store:
            engine = InlineEngine(store)
            yield engine
            await engine.stop(drain=False)


class TestInlineOnSqlite(EngineContract):
    @pytest.fixture
    async def engine(self, tmp_path: Path) -> AsyncIterator[EngineUnderTest]:
        async with SqliteStore(tmp_path / "ekiden.db") as store:
            engine = InlineEngine(store)
            yield engine
            await engine.stop(drain=False)
