"""HTTP with one host only, and not more of it than fits; the only place that opens connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

from ekiden.core.addresses import origin_of

MOST_BYTES = 8_000_000
"""The longest answer that is read; of a stream, all of it together."""


class Refused(httpx.TransportError):
    """The request was not made, or its answer not read to the end."""


class OneHost(httpx.AsyncBaseTransport):
    """Speaks with `origin`, whatever a card or a redirect says, and reads at most `most` bytes."""

    def __init__(self, origin: tuple[str, str, int], *, most: int = MOST_BYTES) -> None:
        self._origin = origin
        self._most = most
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if origin_of(str(request.url)) != self._origin:
            raise Refused(f"its card leads to another host, {request.url.host[:80]}")
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise Refused("it sends compressed answers, which it was asked not to")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Bounded(response.stream, self._most)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._left -= len(piece)
            if self._left < 0:
                raise Refused("its answer is too long")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
