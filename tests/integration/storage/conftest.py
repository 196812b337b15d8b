"""Two views of one PostgreSQL store: near, and behind a proxy that breaks connections."""

from collections.abc import AsyncIterator

import pytest

from ekiden.storage.postgres import PostgresStore
from tests.support.proxy import Proxy


@pytest.fixture
async def proxy(postgres_server_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(postgres_server_url) as proxy:
        yield proxy


@pytest.fixture
async def far(
    postgres_url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresStore]:
    """A store behind the proxy, with one connection on which nothing but the test's calls go."""
    async with PostgresStore(proxy.url(postgres_url), max_size=1) as store:
        monkeypatch.setattr(store._changes, "changed", lambda topics=(): None)
        yield store


@pytest.fixture
async def near(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """The same store, seen directly."""
    async with PostgresStore(postgres_url) as store:
        yield store
