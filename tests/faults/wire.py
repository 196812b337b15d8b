"""A wire between a process and its database that a test cuts, stalls and slows down."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Literal, TypeAlias

from tests.support.proxy import Proxy

State: TypeAlias = Literal["whole", "stalled", "cut"]


class Wire(Proxy):
    """Passes bytes on as long as it is whole.

    While it is stalled, connections are taken and nothing comes through in either direction: what
    was sent arrives when it is whole again. While it is cut, connections are reset, and new ones
    at once.
    """

    def __init__(self, server_url: str) -> None:
        super().__init__(server_url)
        self._through = asyncio.Event()
        self._through.set()
        self._state: State = "whole"
        self.delay_s = 0.0
        """How long every piece takes to come through."""
        self._ends: set[asyncio.StreamWriter] = set()

    def stall(self) -> None:
        """Let nothing through from now on."""
        self._state = "stalled"
        self._through.clear()

    def cut(self) -> None:
        """Reset all connections."""
        self._state = "cut"
        self._through.set()
        for end in list(self._ends):
            _reset(end)

    def mend(self) -> None:
        """Let everything through again."""
        self._state = "whole"
        self._through.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._state == "cut":
            _reset(writer)
            return
        self._ends.add(writer)
        try:
            await super()._serve(reader, writer)
        finally:
            self._ends.discard(writer)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        await super()._requests(_Slow(self, reader), from_server, to_server)  # type: ignore[arg-type]

    async def _answers(self, reader: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        await super()._answers(_Slow(self, reader), to_client)  # type: ignore[arg-type]

    async def pass_through(self) -> None:
        """Return when a piece may go on."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._through.wait()


class _Slow:
    """A reader whose pieces wait at the wire."""

    def __init__(self, wire: Wire, reader: asyncio.StreamReader) -> None:
        self._wire = wire
        self._reader = reader

    async def read(self, most: int) -> bytes:
        data = await self._reader.read(most)
        await self._wire.pass_through()
        return data


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close it so that the other end is told at once, and rudely."""
    found = writer.get_extra_info("socket")
    with suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
