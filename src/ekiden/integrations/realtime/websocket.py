"""A realtime model behind a WebSocket that speaks the OpenAI Realtime wire format."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlsplit

from ekiden.core.errors import UserError
from ekiden.core.values import dumps
from ekiden.integrations.realtime.items import RealtimeModelEvent
from ekiden.integrations.realtime.model import (
    RealtimeConnection,
    RealtimeDisconnected,
    RealtimeModelSendEvent,
    RealtimeModelSettings,
    RealtimeSetup,
    RealtimeUnavailable,
)
from ekiden.integrations.realtime.wire import Frame, decode, first_frame, frames
from ekiden.models.registry import check_not_blocked, is_loopback, origin

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed

DEFAULT_URL = "wss://api.openai.com/v1/realtime"
DEFAULT_MODEL = "gpt-realtime"
Decoder: TypeAlias = Callable[[str | bytes], Iterable[Any]]

_KEY_VARIABLE = "OPENAI_API_KEY"
_SHOWN = 200
_CLOSE_TIMEOUT_S = 2.0
"""How long to wait for the other side to close the connection."""


class RealtimeWebSocketModel:
    """A `RealtimeModel` for OpenAI's Realtime API, and for servers with the same API.

    `api_key` is the API key. For OpenAI's own address, the default is the value of the environment
    variable ``OPENAI_API_KEY``. Ekiden never sends this value to other hosts. A frame with more
    than `max_frame_bytes` bytes ends the connection. The model needs the package ``websockets``
    (``pip install 'ekiden[realtime]'``)::

        model = RealtimeWebSocketModel("gpt-realtime")
        async with await RealtimeRunner(triage, model=model).run() as session:
            await session.send_message("Where is my parcel?")

    Raises `UserError` for an invalid address.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        url: str = DEFAULT_URL,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout_s: float = 10.0,
        max_frame_bytes: int | None = 16 * 1024 * 1024,
    ) -> None:
        self.model = model
        self.url = _checked(url)
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._connect_timeout_s = connect_timeout_s
        self._max_frame_bytes = max_frame_bytes

    def __repr__(self) -> str:
        return f"<RealtimeWebSocketModel {self.model!r} at {origin(self.url)}>"

    async def connect(
        self, setup: RealtimeSetup, settings: RealtimeModelSettings
    ) -> RealtimeConnection:
        """Connect and send `setup`. Raises `RealtimeUnavailable`. Raises `UserError` if the key or
        the package is missing, or if ``EKIDEN_BLOCK_MODELS`` forbids the call."""
        return await self.open(first_frame(setup, settings))

    async def open(
        self,
        first: Frame,
        *,
        query: str | None = None,
        decode: Decoder = decode,
        **options: Any,
    ) -> WebSocketConnection:
        """Connect, and send the frame `first`. `query` replaces the query part of the address. The
        default query names the model.

        `decode` is a function that parses received frames. `options` are passed to the package
        ``websockets``.
        """
        check_not_blocked(self.url)
        query = f"model={quote(self.model)}" if query is None else query
        socket = await self._open(self._key(), query, options)
        connection = WebSocketConnection(
            socket, origin(self.url), self._max_frame_bytes, decode=decode
        )
        try:
            await connection.send_frame(first)
        except BaseException:
            await connection.close()
            raise
        return connection

    def _key(self) -> str | None:
        is_openai = origin(self.url) == origin(DEFAULT_URL)
        key = self._api_key or (os.environ.get(_KEY_VARIABLE) if is_openai else None)
        if not key and is_openai and not self._headers:
            raise UserError(f"{self.model} needs an API key: set {_KEY_VARIABLE}, or pass api_key=")
        return key

    async def _open(
        self, key: str | None, query: str, options: Mapping[str, Any]
    ) -> ClientConnection:
        connect = _websockets().asyncio.client.connect
        failures = _websockets().exceptions
        headers = {"Authorization": f"Bearer {key}", **self._headers} if key else self._headers
        where = origin(self.url)
        try:
            opened: ClientConnection = await connect(
                f"{self.url}?{query}",
                additional_headers=headers,
                open_timeout=self._connect_timeout_s,
                close_timeout=_CLOSE_TIMEOUT_S,
                max_size=self._max_frame_bytes,
                # A proxy of the environment cannot reach a server on this machine.
                **({"proxy": None} if is_loopback(self.url) else {}),
                **options,
            )
        except failures.InvalidStatus as exc:
            status = exc.response.status_code
            text = " ".join((exc.response.body or b"").decode(errors="replace").split())[:_SHOWN]
            if key:
                # Some servers repeat the key in their refusal, and this text goes into logs.
                text = text.replace(key, "***")
            if status in (401, 403):
                text += ": the key is missing, wrong or may not use this model"
            raise RealtimeUnavailable(f"{where} answered {status} {text}", status=status) from None
        except (failures.WebSocketException, OSError, TimeoutError) as exc:
            reason = f"{type(exc).__name__}: {exc}".rstrip(": ")[:_SHOWN]
            raise RealtimeUnavailable(
                f"no connection to {self.model} at {where} could be made ({reason}): check that "
                "the address is right and can be reached"
            ) from exc
        return opened


class WebSocketConnection:
    """`RealtimeConnection` over one socket."""

    def __init__(
        self,
        socket: ClientConnection,
        where: str,
        max_frame_bytes: int | None,
        *,
        decode: Decoder = decode,
    ) -> None:
        self._decode = decode
        self._socket = socket
        self._where = where
        self._max_frame_bytes = max_frame_bytes
        self._sending = asyncio.Lock()

    async def send(self, event: RealtimeModelSendEvent) -> None:
        # One event may be several frames, which must not be mixed with those of another task.
        async with self._sending:
            for frame in frames(event):
                await self.send_frame(frame)

    async def send_frame(self, frame: Frame) -> None:
        """Send one frame. Raises `RealtimeDisconnected` if the connection is lost, and `UserError`
        if the frame is not JSON."""
        try:
            text = dumps(frame)
        except (TypeError, ValueError, RecursionError) as exc:
            raise UserError(f"{frame.get('type')} cannot be sent, it is not JSON: {exc}") from exc
        try:
            await self._socket.send(text)
        except _websockets().exceptions.ConnectionClosed as exc:
            raise self._lost(exc) from exc

    async def events(self) -> AsyncIterator[RealtimeModelEvent]:
        try:
            async for text in self._socket:
                for event in self._decode(text):
                    yield event
        except _websockets().exceptions.ConnectionClosed as exc:
            raise self._lost(exc) from exc

    async def close(self) -> None:
        await self._socket.close()

    def _lost(self, exc: ConnectionClosed) -> RealtimeDisconnected:
        sent, received = exc.sent, exc.rcvd
        if sent is not None and sent.code == 1009 and not exc.rcvd_then_sent:
            reason = f"it sent a frame above the limit of {self._max_frame_bytes} bytes"
        elif received is not None:
            reason = f"it closed with {received.code} {received.reason[:_SHOWN]}".rstrip()
        elif sent is not None:
            reason = f"it was closed with {sent.code} {sent.reason[:_SHOWN]}".rstrip()
        else:
            reason = "it vanished"
        frame = received or sent
        return RealtimeDisconnected(
            f"the connection to {self._where} is lost: {reason}; the session is over, run it again "
            "to go on",
            close_code=None if frame is None else frame.code,
        )


def _checked(url: str) -> str:
    parts = urlsplit("")
    try:
        parts = urlsplit(url)
        is_usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.scheme not in ("ws", "wss") or parts.query or parts.fragment:
        raise UserError(
            "a realtime model's address must look like wss://host/v1/realtime, without a query or "
            "a fragment"
        )
    if parts.username or parts.password:
        raise UserError(
            f"the address of {origin(url)} holds a user name or password: pass api_key= instead"
        )
    return url.rstrip("/")


def _websockets() -> Any:
    """The package `websockets`, imported at the first use. Raises `UserError` if it is missing."""
    try:
        import websockets.asyncio.client
        import websockets.exceptions
    except ImportError as exc:
        raise UserError(
            "realtime sessions need websockets: pip install 'ekiden[realtime]'"
        ) from exc
    return websockets
