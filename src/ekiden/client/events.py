"""Events of all sessions, as they happen, over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ekiden.api import events as api
from ekiden.api.events import Live, LiveEvent, Position
from ekiden.api.methods.called import AsyncStream
from ekiden.client.errors import ClientMisconfigured, ServerUnavailable, error_of
from ekiden.client.wire import API, Wire
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import ServerStopping, TooManyRequests
from ekiden.core.events import Event, EventType
from ekiden.core.values import dumps, loads

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_MAX_MESSAGE = 64 * 1024 * 1024
_IN_ITS_WAY = (ServerUnavailable, ServerStopping, TooManyRequests)


class RemoteEvents(api.EventsApi):
    """See `Events`."""

    wire: Wire

    def subscribe(
        self,
        *,
        sessions: Sequence[str] | None = None,
        agents: Sequence[str] | None = None,
        types: Sequence[EventType] | None = None,
        inbox: bool = False,
        after: str | None = None,
        follow: bool = True,
    ) -> AsyncStream[Live]:
        lists = {"sessions": sessions, "agents": agents, "types": types}
        wanted = {name: list(each) for name, each in lists.items() if each is not None}
        return AsyncStream(
            _Subscribed(self.wire, {**wanted, "inbox": inbox, "follow": follow}, after).read()
        )


@dataclass(slots=True)
class _Subscribed:
    wire: Wire
    wanted: Mapping[str, Any]
    after: str | None
    is_begun: bool = False
    is_over: bool = False

    async def read(self) -> AsyncGenerator[Live, None]:
        failures, began = 0, 0.0
        clock = asyncio.get_running_loop()
        while not self.is_over:
            try:
                async with aclosing(self._once()) as told:
                    async for each in told:
                        failures = 0
                        yield each
                error: EkidenError = ServerUnavailable(self.wire.url, "the connection was closed")
            except _IN_ITS_WAY as exc:
                error = exc
            if self.is_over:
                return
            failures += 1
            if failures == 1:
                began = clock.time()
            is_tried = not self.is_begun or clock.time() - began >= self.wire.manners.reconnect_s
            if failures > self.wire.manners.retries and is_tried:
                raise error
            await asyncio.sleep(self.wire.manners.pause_s(failures, error))

    async def _once(self) -> AsyncGenerator[Live, None]:
        async with _connected(self.wire) as socket:
            place = {} if self.after is None else {"after": self.after}
            message = {"type": "subscribe", **self.wanted, **place}
            await socket.send(dumps(message))
            async for text in socket:
                told = self._told(loads(text))
                if told is not None:
                    yield told
                if self.is_over:
                    return

    def _told(self, message: Mapping[str, Any]) -> Live | None:
        match message["type"]:
            case "subscribed":
                self.after = message["after"]
                if self.is_begun:
                    return None
                self.is_begun = True
                return Position(after=message["after"])
            case "done":
                self.is_over = True
                return Position(after=message["after"])
            case "error":
                raise error_of(422, {**message, "detail": message["message"]})
            case kind if "id" in message:
                self.after = message["id"]
                data = message["data"]
                return LiveEvent(
                    id=message["id"],
                    type=kind,
                    event=Event.from_json(message.get("event", data)),
                    data=data,
                )
            case _:
                return None


@asynccontextmanager
async def _connected(wire: Wire) -> AsyncIterator[ClientConnection]:
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
    except ImportError as exc:
        raise ClientMisconfigured("events need websockets: pip install 'ekiden[client]'") from exc
    address = f"ws{wire.url.removeprefix('http')}{API}/events"
    key = {} if wire.api_key is None else {"Authorization": f"Bearer {wire.api_key}"}
    try:
        async with connect(
            address,
            additional_headers=key,
            max_size=_MAX_MESSAGE,
            open_timeout=wire.manners.connect_timeout_s,
        ) as socket:
            yield socket
    except InvalidStatus as exc:
        raise error_of(exc.response.status_code, _json(exc.response.body)) from exc
    except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake) as exc:
        problem = str(exc) or type(exc).__name__
        raise ServerUnavailable(wire.url, problem) from exc


def _json(body: bytes | bytearray | None) -> Any:
    try:
        return loads(bytes(body or b""))
    except ValueError:
        return None
