"""The shutdown of a server whose WebSocket clients leave at the same moment."""

from __future__ import annotations

from typing import Any

import pytest
from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol
from websockets.exceptions import InvalidState

from ekiden.server.process import websocket_protocol


class Transport:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_closing_client_does_not_break_the_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shutdown(protocol: Any) -> None:
        raise InvalidState("connection is closing")

    monkeypatch.setattr(AutoWebSocketsProtocol, "shutdown", shutdown)
    protocol: Any = object.__new__(websocket_protocol())
    protocol.transport = Transport()
    protocol.shutdown()
    assert protocol.transport.is_closed
