"""A mirror in Vertex on loopback, and teams that talk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ekiden.integrations.vertex import VertexReplica
from ekiden.storage.memory import MemoryStore
from tests.support.vertex_server import VertexServer

pytest.importorskip("google.auth")


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


@pytest.fixture
async def server() -> AsyncIterator[VertexServer]:
    async with VertexServer() as running:
        yield running


@pytest.fixture
async def mirror(server: VertexServer) -> AsyncIterator[VertexReplica]:
    made = vertex(server)
    yield made
    await made.close()


def vertex(server: VertexServer, **options: Any) -> VertexReplica:
    """The mirror that the server is, with a token that always holds."""
    from google.oauth2.credentials import Credentials

    credentials: Any = Credentials
    options = {"credentials": credentials("fixed"), "timeout_s": 5.0, **options}
    return VertexReplica(
        project="desk-1", location="us-central1", engine="4711", url=server.origin, **options
    )
