"""The local HTTP server that others are based on."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer


class Failing(LoopbackServer):
    """Fails at each request."""

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        """Raise an error that names the path."""
        raise LookupError(request.path)


async def get(origin: str, path: str) -> str:
    """The response to a request with its own connection."""
    host, port = origin.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    found = await reader.read()
    writer.close()
    return found.decode()


async def test_an_error_of_the_handler_is_answered_with_500_and_raised_at_the_end() -> None:
    with pytest.raises(LookupError, match="/first"):
        async with Failing() as server:
            for path in ("/first", "/second"):
                found = await get(server.origin, path)
                assert found.startswith("HTTP/1.1 500 ")
                assert f"LookupError('{path}')" in found
