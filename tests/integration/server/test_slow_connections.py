"""Connections that do not say what they want, on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from websockets.asyncio.client import connect

from ekiden.server import ServerConfig
from ekiden.server.process import connections_allowed, prompt_protocol
from tests.support.serving import application, served

HEAD_S = 0.2
ENOUGH_S = 2.0
"""For a head that comes as soon as a busy machine lets it."""
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@asynccontextmanager
async def _served(app: FastAPI, *, most: int = 10, head_s: float = HEAD_S) -> AsyncIterator[int]:
    protocol = prompt_protocol(most=most, head_s=head_s)
    async with served(app, http=protocol, timeout_keep_alive=600) as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    config = ServerConfig(heartbeat_s=3 * HEAD_S)
    async with application(tmp_path, workers=0, config=config) as running:
        yield running


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    )
    await reader.readexactly(length)
    return head.split(b"\r\n")[0]


@pytest.mark.parametrize("first", [b"", b"GET", GET])
async def test_a_connection_without_a_request_head_is_closed(app: FastAPI, first: bytes) -> None:
    async with _served(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


async def test_a_slowly_dripping_request_head_is_closed(app: FastAPI) -> None:
    async with _served(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def drip() -> None:
            writer.write(b"GET /")
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(HEAD_S / 10)

        dripping = asyncio.create_task(drip())
        try:
            async with asyncio.timeout(60):
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
        finally:
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)
            writer.close()


@pytest.mark.slow
async def test_a_second_request_head_has_the_same_time_limit(app: FastAPI) -> None:
    async with _served(app, head_s=ENOUGH_S) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(GET + b"\r\n")
            assert await _answer(reader) == b"HTTP/1.1 200 OK"
        writer.write(GET)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.slow
async def test_a_complete_request_may_be_answered_slowly(app: FastAPI) -> None:
    async with (
        _served(app, head_s=ENOUGH_S) as port,
        asyncio.timeout(60),
        connect(f"ws://127.0.0.1:{port}/api/v1/events?after=") as live,
    ):
        kinds = [json.loads(await live.recv())["type"] for _ in range(5)]
        assert kinds == ["subscribed", *["heartbeat"] * 4]


async def test_a_connection_beyond_the_limit_gets_503_and_is_closed(app: FastAPI) -> None:
    async with _served(app, most=1, head_s=60) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"\r\n")
        assert await _answer(reader) == b"HTTP/1.1 200 OK"
        other, more = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(60):
            assert (await other.read()).startswith(b"HTTP/1.1 503 ")
        more.close()
        writer.write(GET + b"\r\n")
        assert await _answer(reader) == b"HTTP/1.1 200 OK"
        writer.close()


def test_the_connection_limit_is_below_the_open_file_limit() -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections_allowed(5) == 5
    if soft != resource.RLIM_INFINITY:
        assert connections_allowed(10 * soft) < soft


@pytest.mark.parametrize("line", [b"X-Long: ", b"X-Many: 1\r\n"])
async def test_an_endless_request_head_is_refused(app: FastAPI, line: bytes) -> None:
    async with _served(app, head_s=60) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + line * (70_000 // len(line)))
        async with asyncio.timeout(60):
            answer = await reader.read()
        assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 ")), answer
        assert json.loads(answer.split(b"\r\n\r\n")[1])["code"].startswith("request.")
        writer.close()


@pytest.mark.parametrize(
    "request_", [b"GET /" + b"x" * 66_000 + b" HTTP/1.1\r\n\r\n", b"\xff\r\n\r\n"]
)
async def test_bytes_that_are_not_http_are_a_problem_with_a_code(
    app: FastAPI, request_: bytes
) -> None:
    async with _served(app, head_s=60) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_)
        async with asyncio.timeout(60):
            head, body = (await reader.read()).split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in head
        assert json.loads(body)["code"] == "request.invalid"
        writer.close()
