"""Streams from a server: one run as server-sent events, or the events of all sessions over a
WebSocket.

Streams survive a lost connection without gaps or repeats. The id of an event is its number. After a
lost connection the client requests the stream from the number of the last event that it received,
and drops events that it has already received. Text deltas have no number. A delta that was lost is
not sent again, because the next event has the full text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack
from uuid import uuid4

from ekiden.api import runs as api, traces as events_api
from ekiden.api.methods.called import AsyncStream
from ekiden.api.runs import Shown
from ekiden.api.traces import Live, LiveEvent, Position
from ekiden.client.errors import ClientMisconfigured, ServerProblem, ServerUnavailable, error_of
from ekiden.client.wire import API, Wire, part
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.documents import from_json
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import IdempotencyConflict, ServerStopping, TooManyRequests
from ekiden.core.events import Event, EventType
from ekiden.core.runs import Run, RunStarted, session_id_of
from ekiden.core.values import dumps, loads

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

T = TypeVar("T")

MAX_MESSAGE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SseMessage:
    """One server-sent event."""

    event: str
    data: str
    id: str | None = None
    """The id of the message; `None` if the message has no id."""


class SseReader:
    """Splits chunks of bytes into messages. An incomplete message at the end is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0
        """The length of the data of the incomplete message."""

    def feed(self, chunk: bytes) -> Iterator[SseMessage]:
        """The messages that this chunk completes. Raises `ServerProblem` for a message that is too
        long."""
        buffer = self._rest + chunk
        # A carriage return at the end may be the first half of a line break.
        held = b"\r" if buffer.endswith(b"\r") else b""
        text = buffer[: len(buffer) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + held
        for line in lines:
            message = self._line(line.decode("utf-8", "replace"))
            if message is not None:
                yield message
        if self._size + len(self._rest) > MAX_MESSAGE:
            raise ServerProblem(
                "client.problem", 200, f"one message is longer than {MAX_MESSAGE} bytes"
            )

    def _line(self, line: str) -> SseMessage | None:
        if line == "":
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
                self._size += len(value)
            case "id" if "\0" not in value:
                self._id = value
        return None

    def _complete(self) -> SseMessage | None:
        event, data, number = self._event or "message", self._data, self._id
        self._event, self._data, self._id, self._size = "", [], None, 0
        if not data:
            return None
        return SseMessage(event=event, data="\n".join(data), id=number)


_TRANSIENT = (ServerUnavailable, ServerStopping, TooManyRequests)


@dataclass(slots=True, kw_only=True)
class _Stream(Generic[T]):
    """A stream that reconnects after the last item that it has read."""

    wire: Wire
    is_over: bool = False
    """Whether the last item was read."""

    async def read(self) -> AsyncGenerator[T, None]:
        """All items. Raises `ServerUnavailable` if the server stays unavailable."""
        failures, failed_at, has_begun = 0, 0.0, False
        clock = asyncio.get_running_loop()
        while True:
            try:
                async with aclosing(self._once()) as items:
                    async for each in items:
                        failures, has_begun = 0, True
                        yield each
                        if self.is_over:
                            return
                error: EkidenError = ServerUnavailable(self.wire.url, "the stream ended too early")
            except _TRANSIENT as exc:
                error = exc
            except IdempotencyConflict as exc:
                if not failures:
                    raise
                error = exc  # The first request, whose response was lost, is still in progress.
            failures += 1
            if failures == 1:
                failed_at = clock.time()
            policy = self.wire.policy
            # A stream that has begun outlives a restart of the server, which takes some seconds.
            gives_up = not has_begun or clock.time() - failed_at >= policy.reconnect_s
            if failures > policy.retries and gives_up:
                raise error
            await asyncio.sleep(policy.pause_s(failures, error))

    def _once(self) -> AsyncGenerator[T, None]:
        """The items of one connection."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class _RunStream(_Stream[Shown]):
    path: str | None = None
    """The path of the stream. `None`: the run has not started."""
    after: int | None = None
    """The number of the last event that arrived."""
    body: Any = None
    """The request body that starts the run."""
    key: str = ""
    """The idempotency key of that request."""
    params: Mapping[str, str] = field(default_factory=dict)

    async def _once(self) -> AsyncGenerator[Shown, None]:
        if self.path is None:
            opened = self.wire.stream(
                "POST", "/runs", body=self.body, headers={"Idempotency-Key": self.key}
            )
        else:
            headers = {} if self.after is None else {"Last-Event-ID": str(self.after)}
            opened = self.wire.stream("GET", self.path, params=self.params, headers=headers)
        async with opened as answer:
            if (started := self._read_start(answer.headers)) is not None:
                yield started
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                return  # An earlier attempt started the run; its stream is gone.
            async for message in _messages(answer.aiter_bytes()):
                shown = self._shown(message)
                if shown is not None:
                    yield shown

    def _read_start(self, headers: Mapping[str, str]) -> RunStarted | None:
        """The ids of the run, from the response that started it."""
        run_id = headers.get("X-Ekiden-Run", "")
        if self.path is not None or not run_id:
            return None
        self.path = f"/runs/{part(run_id)}/events"
        return RunStarted(run_id=run_id, session_id=session_id_of(run_id))

    def _shown(self, message: SseMessage) -> Shown | None:
        if message.id is not None and message.id.isascii() and message.id.isdigit():
            number = int(message.id)
            if self.after is not None and number <= self.after:
                return None
            self.after = number
        try:
            data = loads(message.data)
            match message.event:
                case "delta":
                    return ModelDelta.from_json(data)
                case "end":
                    run: Run = from_json(Run, data)
                    self.is_over = True
                    return run
                case "error":
                    raise ServerProblem(data["code"], 200, data["detail"])
                case _ if message.id is None:
                    return None  # A heartbeat, or a message of a newer server.
                case _:
                    return Event.from_json(data)
        except (ValueError, KeyError, TypeError) as exc:
            raise ServerProblem(
                "client.problem", 200, f"the stream cannot be read: {type(exc).__name__}"
            ) from exc


async def _messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[SseMessage]:
    reader = SseReader()
    async for chunk in chunks:
        for message in reader.feed(chunk):
            yield message


class RemoteRuns(api.RunsApi):
    """`RunsApi` of a server. Streams survive lost connections."""

    wire: Wire

    async def run(
        self,
        input: api.Input,
        *,
        timeout_s: float | None = None,
        **options: Unpack[api.StartOptions],
    ) -> Run:
        body = _given(input=input, timeout_s=timeout_s, **options)
        run: Run = from_json(Run, await self.wire.ask("POST", "/runs", body=body))
        return run if timeout_s is not None else await api.ended(self, run)

    def stream(
        self, input: api.Input, **options: Unpack[api.StartOptions]
    ) -> AsyncStream[api.Shown]:
        body = {**_given(input=input, **options), "stream": True}
        # The key makes retries idempotent: the run starts once.
        return AsyncStream(_RunStream(wire=self.wire, body=body, key=uuid4().hex).read())

    def follow(
        self, run_id: str, *, after: int | None = None, until: api.Until = "pause"
    ) -> AsyncStream[api.Shown]:
        path = f"/runs/{part(run_id)}/events"
        stream = _RunStream(wire=self.wire, path=path, after=after, params={"until": until})
        return AsyncStream(stream.read())

    async def resume_and_wait(
        self,
        session_id: str,
        *,
        timeout_s: float | None = None,
        **limits: Unpack[api.LimitOptions],
    ) -> Run:
        path = f"/sessions/{part(session_id)}/resume"
        body = _given(timeout_s=timeout_s, **limits)
        run: Run = from_json(Run, await self.wire.ask("POST", path, body=body))
        return run if timeout_s is not None else await api.ended(self, run)

    def follow_session(
        self, session_id: str, *, after: int | None = None
    ) -> AsyncStream[Event | ModelDelta]:
        path = f"/sessions/{part(session_id)}/stream"
        shown: Any = _RunStream(wire=self.wire, path=path, after=after).read()
        return AsyncStream(shown)


def _given(**values: Any) -> dict[str, Any]:
    """The arguments that are not `None`: the server has defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}


class RemoteEvents(events_api.EventsApi):
    """`EventsApi` of a server."""

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
        filters = {**wanted, "inbox": inbox, "follow": follow}
        return AsyncStream(_EventStream(wire=self.wire, filters=filters, after=after).read())


@dataclass(slots=True, kw_only=True)
class _EventStream(_Stream[Live]):
    filters: Mapping[str, Any]
    after: str | None
    is_subscribed: bool = False

    async def _once(self) -> AsyncGenerator[Live, None]:
        async with _connected(self.wire) as socket:
            place = {} if self.after is None else {"after": self.after}
            message = {"type": "subscribe", **self.filters, **place}
            await socket.send(dumps(message))
            async for text in socket:
                live = self._read_message(loads(text))
                if live is not None:
                    yield live

    def _read_message(self, message: Mapping[str, Any]) -> Live | None:
        match message["type"]:
            case "subscribed":
                self.after = message["after"]
                if self.is_subscribed:
                    return None
                self.is_subscribed = True
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
            max_size=MAX_MESSAGE,
            open_timeout=wire.policy.connect_timeout_s,
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
