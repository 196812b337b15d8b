"""Connections that say what they want soon, and not more of them than can be served.

uvicorn waits for ever for the end of a request's head, so that whoever opens many connections and
sends a byte now and then keeps others out. Here a head has ten seconds. Bodies, which come after
it, have their own limit, and so do connections between two requests.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0
"""How long a connection may take to send the head of a request."""
_LEAST: Final = 64
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class Prompt(H11Protocol):
    """One connection; see `prompt_protocol`."""

    most: ClassVar[int]
    head_s: ClassVar[float]
    _late: asyncio.TimerHandle | None = None
    _is_upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; one connection too many is closed at once."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(_FULL)
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting until the head is there: what came before does not count."""
        super().data_received(data)
        if self._is_upgraded or self.transport.is_closing() or not self._lacks_head:
            self._wait_no_more()
        elif self._late is None:
            self._wait()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on the connection is somebody else's."""
        self._is_upgraded = True
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Over."""
        self._wait_no_more()
        super().connection_lost(exc)

    @property
    def _lacks_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.head_s, self._is_late)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_late(self) -> None:
        self._late = None
        if not self._is_upgraded and self._lacks_head:
            self.transport.close()


def prompt_protocol(*, most: int, head_s: float = HEAD_S) -> type[Prompt]:
    """What uvicorn serves connections with: `most` of them at the same time, each of which has
    `head_s` seconds for the head of a request."""
    return type("PromptProtocol", (Prompt,), {"most": most, "head_s": head_s})


def connections_allowed(wanted: int) -> int:
    """`wanted`, or as many as this process can have open beside its files."""
    try:
        import resource
    except ImportError:  # Only there where there are such limits.
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(_LEAST, soft - max(_LEAST, soft // 8)))
