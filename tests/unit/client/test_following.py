"""Streams across cut connections: no gap, no repeat."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from ekiden.client import AsyncClient, Client, ServerProblem, ServerUnavailable
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import SessionBusy
from ekiden.core.events import Event
from ekiden.core.runs import Run, RunStarted

END = {"run_id": "s:1", "session_id": "s", "status": "done", "output": "42"}


def event(number: int) -> bytes:
    data = {"session_id": "s", "seq": number, "event_type": "message", "timestamp": 1.5}
    return f"id: {number}\nevent: message\ndata: {json.dumps(data)}\n\n".encode()


def delta(text: str) -> bytes:
    return f"event: delta\ndata: {json.dumps({'kind': 'text', 'text': text})}\n\n".encode()


def end() -> bytes:
    return f"event: end\ndata: {json.dumps(END)}\n\n".encode()


class Source(httpx2.AsyncByteStream):
    """Some chunks; then the connection breaks, if it is to."""

    def __init__(self, *chunks: bytes, breaks: bool) -> None:
        self.chunks, self.breaks = chunks, breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
        if self.breaks:
            raise httpx2.ReadError("cut")


class Server:
    """Gives the stream from the event that was asked for, cut after so many chunks at a time."""

    def __init__(
        self, *chunks: bytes, size: int, repeats: bool = False, breaks: bool = True
    ) -> None:
        self.chunks, self.size, self.repeats, self.breaks = chunks, size, repeats, breaks
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        last = int(request.headers.get("Last-Event-ID", 0)) - self.repeats
        rest = [each for each in self.chunks if not each.startswith(b"id:") or _number(each) > last]
        while rest and last > 0 and rest[0].startswith(b"event: delta"):
            rest.pop(0)
        shown = rest[: self.size]
        return httpx2.Response(
            200,
            stream=Source(*shown, breaks=self.breaks and len(shown) < len(rest)),
            headers={"Content-Type": "text/event-stream", "X-Ekiden-Run": "s:1"},
        )


def _number(chunk: bytes) -> int:
    return int(chunk.split(b"\n")[0].removeprefix(b"id: "))


def client_of(script: Any, **more: Any) -> AsyncClient:
    transport = httpx2.MockTransport(script)
    return AsyncClient("http://server", backoff_s=0, transport=transport, **more)


def numbers(found: list[Any]) -> list[int]:
    return [each.seq for each in found if isinstance(each, Event)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("breaks", [False, True])
async def test_a_stream_cut_at_every_byte_has_no_gap_and_no_repeat(
    size: int, repeats: bool, breaks: bool
) -> None:
    if repeats and size == 1:
        size = 2  # A server that repeats has to come further, too.
    server = Server(*map(event, range(1, 7)), end(), size=size, repeats=repeats, breaks=breaks)
    async with client_of(server) as client:
        found = [each async for each in client.runs.stream("hi")]
    assert isinstance(found[0], RunStarted)
    assert numbers(found) == [1, 2, 3, 4, 5, 6]
    assert isinstance(found[-1], Run)
    assert found[-1].output == "42"
    methods = [request.method for request in server.requests]
    assert methods == ["POST", *["GET"] * (len(methods) - 1)]


async def test_deltas_are_delivered_between_events() -> None:
    server = Server(event(1), delta("4"), delta("2"), event(2), end(), size=9)
    async with client_of(server) as client:
        found = [each async for each in client.runs.stream("hi")]
    assert [each.text for each in found if isinstance(each, ModelDelta)] == ["4", "2"]


async def test_a_retried_start_uses_one_idempotency_key() -> None:
    answers: list[Any] = [
        httpx2.ConnectError("refused"),
        httpx2.ReadError("cut before the answer"),
        httpx2.Response(409, json={"code": "request.idempotency", "detail": "in progress"}),
        httpx2.Response(200, json=END, headers={"X-Ekiden-Run": "s:1"}),
    ]
    server = Server(event(1), end(), size=9)
    keys: list[str] = []

    def script(request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            keys.append(request.headers["Idempotency-Key"])
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            assert isinstance(answer, httpx2.Response)
            return answer
        return server(request)

    async with client_of(script) as client:
        found = [each async for each in client.runs.stream("hi")]
    assert numbers(found) == [1]
    assert len(keys) == 4
    assert len(set(keys)) == 1


async def test_a_server_that_stays_unreachable_is_an_error() -> None:
    def script(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    async with client_of(script, retries=2) as client:
        with pytest.raises(ServerUnavailable, match="refused"):
            await anext(client.runs.stream("hi"))


async def test_a_stream_without_progress_is_given_up() -> None:
    server = Server(event(1), event(2), size=0, breaks=False)
    async with client_of(server, retries=2) as client:
        with pytest.raises(ServerUnavailable, match="too early"):
            [each async for each in client.runs.follow("s:1", after=1)]
    assert [request.headers["Last-Event-ID"] for request in server.requests] == ["1"] * 3


async def test_a_refusal_of_the_server_is_not_retried() -> None:
    def script(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(409, json={"code": "session.busy", "detail": "taken"})

    async with client_of(script) as client:
        with pytest.raises(SessionBusy, match="taken"):
            await anext(client.runs.stream("hi"))


@pytest.mark.parametrize(
    "chunk", [b"id: 1\ndata: {\n\n", b"id: 1\ndata: {}\n\n", b"event: end\ndata: 7\n\n"]
)
async def test_a_malformed_stream_is_an_error(chunk: bytes) -> None:
    server = Server(chunk, size=9)
    async with client_of(server) as client:
        with pytest.raises(ServerProblem, match="cannot be read"):
            [each async for each in client.runs.stream("hi")]


async def test_unknown_events_of_a_newer_server_are_skipped() -> None:
    server = Server(b"event: weather\ndata: 7\n\n", event(1), end(), size=9)
    async with client_of(server) as client:
        found = [each async for each in client.runs.stream("hi")]
    assert numbers(found) == [1]


async def test_leaving_a_stream_early_closes_the_connection() -> None:
    server = Server(event(1), event(2), end(), size=9)
    async with client_of(server) as client, client.runs.stream("hi") as shown:
        assert isinstance(await anext(shown), RunStarted)
    assert len(server.requests) == 1


def test_the_sync_client_reads_streams() -> None:
    server = Server(event(1), event(2), end(), size=1)
    transport = httpx2.MockTransport(server)
    with Client("http://server", backoff_s=0, transport=transport) as client:
        with client.runs.stream("hi") as shown:
            found = list(shown)
        assert numbers(found) == [1, 2]
        assert isinstance(client.runs.follow("s:1"), type(shown))
    with pytest.raises(RuntimeError, match="closed"):
        client.runs.get("s:1")
