"""Which server the command talks to."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ekiden.client import AsyncClient

_server: ContextVar[str] = ContextVar("ekiden_server")


@contextmanager
def at_server(url: str) -> Iterator[None]:
    """Let the commands in it talk to this server."""
    token = _server.set(url)
    try:
        yield
    finally:
        _server.reset(token)


@asynccontextmanager
async def connected() -> AsyncIterator[AsyncClient]:
    """A client of the server; the key is that of the environment, because arguments are seen by
    everybody on the machine."""
    from ekiden.client import AsyncClient

    async with AsyncClient(_server.get()) as client:
        yield client


def server_words() -> list[str]:
    """The option that names the server in a command, if it has to be given again."""
    url = _server.get()
    return [] if url == os.environ.get("EKIDEN_SERVER") else ["--server", url]
