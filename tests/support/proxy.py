"""A port in front of a PostgreSQL server where a test breaks connections at the worst moment."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import parse_qs, urlsplit

Fault = Literal["lose_answer", "hold_request", "fall_silent"]


class Proxy:
    """Passes bytes on, except for the one fault that a test asks for.

    `lose_answer`: the server's next answer is thrown away and the connection closed.
    `hold_request`: the client's next request is kept, and the client's end closed; the server's
    end stays open until `deliver` sends it the request.
    `fall_silent`: half of the client's next request is passed on, and nothing after that, but both
    ends stay open.
    """

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._fault: Fault | None = None
        self._passing = 0
        self._held: tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests = 0
        """How many chunks came from clients, at most one for each round trip."""
        self.gate = asyncio.Event()
        """While it is not set, new connections get no answer."""
        self.gate.set()
        self.struck = asyncio.Event()
        """Set when the fault has happened."""

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._held is not None:
            self._held[1].close()

    def url(self, store_url: str) -> str:
        """The URL of a store as it is seen through this port."""
        schema = parse_qs(urlsplit(store_url).query)["schema"][0]
        parts = urlsplit(self._server_url)
        login = parts.netloc.rpartition("@")[0] or "postgres"
        place = f"{login}@127.0.0.1:{self.port}{parts.path}"
        return f"postgresql://{place}?sslmode=disable&schema={schema}"

    def strike(self, fault: Fault, *, after: int = 0) -> None:
        """Do this to the next answer or request, once so many have passed."""
        self.struck.clear()
        self._fault, self._passing = fault, after

    @property
    def holds(self) -> bool:
        """Whether a request is held that `deliver` would send."""
        return self._held is not None

    async def close_port(self) -> None:
        """Take no new connections any more."""
        self._listener.close()

    async def deliver(self) -> None:
        """Let the request that was held arrive, late, and wait for the server's answer."""
        assert self._held is not None
        (reader, writer, request), self._held = self._held, None
        writer.write(request)
        await reader.read(1)
        writer.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before it begins closes nothing.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.gate.wait()
            await self._pass_on(reader, writer)
        except BaseException:
            writer.transport.abort()
            raise

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await self._connect()
        pumps = [
            asyncio.create_task(self._requests(reader, from_server, to_server)),
            asyncio.create_task(self._answers(from_server, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            writer.close()
            if self._held is None or self._held[1] is not to_server:
                to_server.close()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 20):
                self.requests += 1
                if self._take("hold_request"):
                    self._held = (from_server, to_server, data)
                    return
                if self._take("fall_silent"):
                    to_server.write(data[: len(data) // 2])
                    await asyncio.Event().wait()
                to_server.write(data)

    async def _answers(self, reader: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 20):
                if self._take("lose_answer"):
                    return
                to_client.write(data)

    def _take(self, fault: Fault) -> bool:
        if self._fault != fault:
            return False
        if self._passing:
            self._passing -= 1
            return False
        self._fault = None
        self.struck.set()
        return True

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._server_url)
        folder = parse_qs(parts.query).get("host", [""])[0]
        if folder.startswith("/"):
            return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{parts.port or 5432}")
        return await asyncio.open_connection(parts.hostname or "127.0.0.1", parts.port or 5432)
