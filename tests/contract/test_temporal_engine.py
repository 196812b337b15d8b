"""Workers on Temporal keep the contract of engines."""

from collections.abc import AsyncIterator

import pytest

from ekiden.storage.postgres import PostgresStore
from ekiden.testing.engine_contract import EngineUnderTest, QueueEngineContract
from tests.support.temporal import DevServer
from tests.support.temporal_engine import TemporalEngine


class TestTemporalOnPostgres(QueueEngineContract):
    @pytest.fixture
    async def engine(
        self, postgres_store: PostgresStore, temporal_server: DevServer
    ) -> AsyncIterator[EngineUnderTest]:
        engine = TemporalEngine(postgres_store, temporal_server.address)
        yield engine
        await engine.stop(drain=False)
