"""An engine on PostgreSQL and a Temporal server, for tests that look at both."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ekiden.storage.postgres import PostgresStore
from tests.support.temporal import DevServer
from tests.support.temporal_engine import TemporalEngine


@pytest.fixture
async def engine(
    postgres_store: PostgresStore, temporal_server: DevServer
) -> AsyncIterator[TemporalEngine]:
    """Not started; workflows that have nothing to do end soon."""
    engine = TemporalEngine(postgres_store, temporal_server.address, linger_s=0.1)
    yield engine
    await engine.stop(drain=False)
