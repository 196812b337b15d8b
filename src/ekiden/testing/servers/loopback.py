"""A small local HTTP server. Servers with a provider's API are based on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

_T = TypeVar("_T")

_LIMIT = 16 * 1024 * 1024
_TURNS = 4
"""The number of turns of the event loop until a connection is accepted."""
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


class ClientGone(Exception):
    """The client closed the connection before it got its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A received request."""

    method: str
    path: str
    """The path, without the query."""
    query: str
    headers: Mapping[str, str]
    """The headers. Their names are in lower case."""
    body: bytes

    def json(self) -> Any:
        """The parsed body. Raises `ValueError` if it is not JSON."""
        return json.loads(self.body)


class HttpReply:
    """The response to one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def json(
        self, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with JSON."""
        await self.text(json.dumps(body), status=status, headers=headers)

    async def text(
        self,
        body: str,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        sent: int | None = None,
    ) -> None:
        """Answer with a text that has the content type JSON. With `sent`, send only this many bytes
        of it."""
        data = body.encode()
        head = {"content-length": str(len(data)), "content-type": "application/json"}
        self._head(status, {**head, **(headers or {})})
        self._writer.write(data if sent is None else data[:sent])
        await self._writer.drain()

    async def start_events(self) -> None:
        """Begin a stream of server-sent events."""
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        await self._writer.drain()

    async def event(self, data: str, *, name: str | None = None) -> None:
        """Send one event of the stream."""
        text = f"event: {name}\n" if name else ""
        payload = f"{text}data: {data}\n\n".encode()
        self._writer.write(b"%x\r\n%s\r\n" % (len(payload), payload))
        await self._writer.drain()

    async def end_events(self) -> None:
        """End the stream properly."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def drop(self) -> None:
        """Send the data so far, and close the connection without ending the response."""
        await self._writer.drain()
        self._writer.close()

    async def unless_gone(self, wait: Awaitable[_T]) -> _T:
        """Wait for `wait`. Raises `ClientGone` as soon as the client disconnects."""
        waiting = asyncio.ensure_future(wait)
        leaving = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise ClientGone
            return waiting.result()
        finally:
            waiting.cancel()
            leaving.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


class LoopbackServer:
    """Serves `handle` on `port` of 127.0.0.1, by default a free port, inside an ``async with``
    block. If `handle` raises, the client gets the status 500, and the block raises the first of
    these exceptions at its end."""

    def __init__(self, *, port: int = 0) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._failures: list[Exception] = []
        self._is_closing = False

    @property
    def origin(self) -> str:
        """The address, such as ``http://127.0.0.1:40123``."""
        assert self._server is not None, "the server runs only inside `async with`"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        """Answer one request."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._is_closing = False
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self._port, limit=_LIMIT
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._server is not None
        self._is_closing = True
        # When the server closes, Python 3.11 leaves a connection open that is just being accepted.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _turn in range(_TURNS):
            await asyncio.sleep(0)
        self._server.close()
        clients = dict(self._clients)
        for client, writer in clients.items():
            client.cancel()
            # A client that reads nothing would delay a normal close for ever.
            writer.transport.abort()
        await asyncio.gather(*clients, return_exceptions=True)
        await self._server.wait_closed()
        if self._failures:
            raise self._failures[0]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closing:
            writer.transport.abort()
            return
        client = asyncio.create_task(self._serve(reader, writer))
        self._clients[client] = writer
        client.add_done_callback(self._clients.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                request = await _read(reader)
                if request is None:
                    break
                reply = HttpReply(reader, writer)
                try:
                    await self.handle(request, reply)
                except (ClientGone, ConnectionError, asyncio.IncompleteReadError):
                    raise
                except Exception as exc:
                    self._failures.append(exc)
                    await reply.json({"error": {"message": repr(exc)}}, status=500)
                    break
        except (ClientGone, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request; `None` if the client has closed the connection."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    start, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = start.split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    path, _, query = target.partition("?")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return HttpRequest(method=method, path=path, query=query, headers=headers, body=body)
