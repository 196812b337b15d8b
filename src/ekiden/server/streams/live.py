"""Live streams of runs and sessions: server-sent events, and the WebSocket `/events`.

The id of an event is its number in its session. A client that reconnects sends the last id
(`Last-Event-ID`) and gets exactly the later events, from any server of the store. Deltas have no
id, because they are not stored. The event that follows has their whole text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import ExitStack, aclosing, suppress
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ekiden.api.local.traces import live_event
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import RequestInvalid, TooManyRequests
from ekiden.core.events import EventType
from ekiden.core.runs import ACTIVE
from ekiden.core.values import dumps, loads
from ekiden.hub import EventStream, HubEvent, Subscription
from ekiden.hub.hub import Shown
from ekiden.project.service import TenantService
from ekiden.server.access import needs
from ekiden.server.authorization import subprotocol_of
from ekiden.server.metrics import Metrics, Transport
from ekiden.server.problems import response_of, takes_query, words_for
from ekiden.server.streams.follow import Inner

LastEventId: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        max_length=200,
        description="The id of the last event that you received. The stream continues after it.",
        json_schema_extra={"pattern": r"^(|([^\r\n]*/)?[0-9]{1,15})$"},
    ),
]

_log = logging.getLogger("ekiden.server")

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
BEAT = format_sse_event(comment="alive")
"""The heartbeat of an idle stream."""
_RETRY_MS = 1000


def data_event(body: dict[str, Any]) -> bytes:
    """An event that has only data."""
    return f"data: {dumps(body)}\n\n".encode()


def parse_last_id(value: str | None) -> int | None:
    """The number in `Last-Event-ID`. Raises `RequestInvalid` if it is not an event id."""
    if value is None or value == "":
        return None
    number = value.rpartition("/")[2]
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise RequestInvalid(f"Last-Event-ID {value[:40]!r} is not an event id")
    return int(number)


def encoded(shown: Shown | Inner) -> bytes:
    """An event or a delta as bytes. Events of sessions that answer the run have a depth, and no
    id."""
    if isinstance(shown, Inner):
        inner = shown.shown
        if isinstance(inner, ModelDelta):
            whose = {"session_id": shown.session_id, "agent_name": shown.agent}
            data = {**inner.to_json(), "index": inner.index, **whose, "depth": shown.depth}
            return format_sse_event(event="delta", data_str=dumps(data))
        data = {**inner.to_json(), "depth": shown.depth}
        return format_sse_event(event=inner.type, data_str=dumps(data))
    if isinstance(shown, ModelDelta):
        delta = {**shown.to_json(), "index": shown.index}
        return format_sse_event(event="delta", data_str=dumps(delta))
    return format_sse_event(event=shown.type, id=str(shown.seq), data_str=dumps(shown.to_json()))


def cut_off(name: str, error: EkidenError) -> str:
    """Log that an error cut off the stream called `name`, and return the reason for the client."""
    _log.warning("the stream of %s was cut off: %s", name, error.code)
    return words_for(error)


async def run_stream(
    desk: TenantService,
    run_id: str,
    watching: AsyncGenerator[Shown | Inner | None, None],
    *,
    through_waits: bool,
) -> AsyncGenerator[bytes, None]:
    """The run as `Runs.watch` shows it, and finally an event `end` with the run.

    A stream without `end` was cut off. The client then reconnects with the last id.
    """
    try:
        async with aclosing(watching):
            yield format_sse_event(retry=_RETRY_MS)
            async for shown in watching:
                yield BEAT if shown is None else encoded(shown)
        if desk.tails.is_closed:
            return
        run = await desk.runs.read_ended(run_id)
    except EkidenError as exc:
        cut_off(run_id, exc)
        return
    waits_too = ACTIVE | {"waiting"} if through_waits else ACTIVE
    if run.status not in waits_too:
        yield format_sse_event(event="end", data_str=dumps(to_json(run)))


async def session_stream(
    desk: TenantService, session_id: str, *, after: int, quiet_s: float
) -> AsyncGenerator[bytes, None]:
    """All events of a session, run after run, until it is deleted or the server stops."""
    yield format_sse_event(retry=_RETRY_MS)
    watching = desk.runs.watch_session(session_id, after=after, quiet_s=quiet_s)
    try:
        async with aclosing(watching):
            async for shown in watching:
                yield BEAT if shown is None else encoded(shown)
    except EkidenError as exc:
        cut_off(session_id, exc)


class Streams:
    """Counts the open streams, and limits them."""

    def __init__(self, metrics: Metrics, *, most: int, heartbeat_s: float) -> None:
        self._metrics = metrics
        self._most = most
        self.heartbeat_s = heartbeat_s
        """Seconds without an event after which a stream sends a heartbeat."""
        self.open = 0
        """The number of open streams."""

    def admit(self, transport: Transport) -> Callable[[], None]:
        """Count one more stream, until the returned function is called. Raises `TooManyRequests` at
        the limit."""
        self.check_room()
        self.open += 1
        leaving = ExitStack()
        leaving.enter_context(self._metrics.connection(transport))
        leaving.callback(self._left)
        return leaving.close

    def check_room(self) -> None:
        """Raise `TooManyRequests` at the limit, for callers that start work before the stream."""
        if self.open >= self._most:
            raise TooManyRequests("too many streams are open", retry_after_s=5)

    def _left(self) -> None:
        self.open -= 1

    def response(
        self, stream: AsyncGenerator[bytes, None], headers: dict[str, str] | None = None
    ) -> EventSourceResponse:
        """Return the stream as a response."""
        return _Stream(stream, self.admit("sse"), {**_HEADERS, **(headers or {})})


class _Stream(EventSourceResponse):
    """A stream that is always closed, also if the client disconnects before it begins."""

    def __init__(
        self,
        stream: AsyncGenerator[bytes, None],
        leave: Callable[[], None],
        headers: dict[str, str],
    ) -> None:
        super().__init__(stream, headers=headers)
        self._stream = stream
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()
            await self._stream.aclose()


EVENT_STREAM: Final[dict[str, Any]] = {
    "text/event-stream": {
        "schema": {
            "type": "object",
            "description": "One event of the stream.",
            "properties": {
                "event": {"type": "string", "description": "The type of the event."},
                "id": {
                    "type": "string",
                    "description": "The id of the event, for `Last-Event-ID`.",
                },
                "data": {"type": "string", "description": "JSON."},
                "retry": {"type": "integer", "minimum": 0},
            },
        }
    }
}
"""The description of streams in the OpenAPI document. OpenAPI 3.1 can only describe one event."""


def stream_responses(description: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a streaming route in the OpenAPI document."""
    return {200: {"description": description, "content": EVENT_STREAM}}


# The WebSocket: as many subscriptions to events as the client asks for. The client sends JSON
# objects: `subscribe`, `unsubscribe` and `ping`. It gets an object for each event, with an `id` to
# continue after a lost connection. Each subscription is a stream of the hub, which buffers nothing:
# a slow client falls behind and costs no memory.

IN_QUERY = ("sessions", "agents", "types", "inbox", "after", "id")
"""The parts of a subscription that the address may contain."""
MOST_SUBSCRIPTIONS = 64
_MOST_MISTAKES = 20
_MOST_WAITING = 64
_SEND_S = 30.0
_MISTAKEN = 1008
_RESTARTING = 1012
_TOO_SLOW = 1013


class Subscribe(BaseModel):
    """The filters of a subscription. A missing filter matches all events."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["subscribe"] = "subscribe"
    id: str = Field(default="", max_length=100, description="The client's name for it.")
    sessions: list[str] | None = Field(default=None, max_length=1000)
    agents: list[str] | None = Field(default=None, max_length=1000)
    types: list[EventType] | None = None
    inbox: bool = Field(default=False, description="Inbox items and their changes.")
    after: str | None = Field(
        default=None,
        max_length=200,
        description="The `id` of the last received event. An empty text means all events. "
        "Without this field, only new events are sent.",
    )
    follow: bool = Field(
        default=True,
        description="Whether to wait for new events. If false, `done` follows the stored events.",
    )

    def where(self) -> Subscription:
        """The filters in the form of the hub."""
        return Subscription(
            sessions=self.sessions, agents=self.agents, types=self.types, inbox=self.inbox
        )


class _Over(Exception):
    """Closes the connection with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class LiveConnection:
    """One accepted connection, with its subscriptions."""

    def __init__(self, socket: WebSocket, desk: TenantService, *, heartbeat_s: float) -> None:
        self._socket = socket
        self._desk = desk
        self._heartbeat_s = heartbeat_s
        self._outgoing: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(_MOST_WAITING)
        self._streams: dict[str, tuple[EventStream, asyncio.Task[None]]] = {}
        self._mistakes = 0
        self._sent: dict[str, str] = {}
        """By subscription: the id of the last event that was queued for the client."""
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has an exception once a subscription fails."""

    async def run(self, first: Subscribe | None) -> None:
        """Serve until the client or the server ends the connection."""
        writer = asyncio.create_task(self._write())
        reader = asyncio.create_task(self._read(first))
        try:
            done, _ = await asyncio.wait(
                {writer, reader, self._broken}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        except _Over as over:
            with suppress(RuntimeError):
                await self._socket.close(over.code, over.reason)
        except (WebSocketDisconnect, RuntimeError):
            pass  # The other side is gone.
        finally:
            subscriptions = [task for _, task in self._streams.values()]
            tasks = [writer, reader, self._broken, *subscriptions]
            for stream, _ in self._streams.values():
                stream.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, first: Subscribe | None) -> None:
        if first is not None:
            await self._try(self._subscribe(first), first.id)
        while True:
            await self._try(self._take(await self._socket.receive()), None)

    async def _try(self, work: Coroutine[Any, Any, None], subscription: str | None) -> None:
        try:
            await work
        except EkidenError as exc:
            self._mistakes += 1
            error = {"type": "error", "code": exc.code, "message": words_for(exc)}
            if subscription is not None:
                error["subscription"] = subscription
            await self._outgoing.put(error)
            if self._mistakes >= _MOST_MISTAKES:
                raise _Over(_MISTAKEN, "too many invalid messages") from exc

    async def _take(self, received: Message) -> None:
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(received.get("code", 1000))
        text = received.get("text")
        if text is None:
            raise RequestInvalid("a message must be text: send the JSON in a text frame")
        try:
            message = loads(text)
        except (ValueError, RecursionError) as exc:
            raise RequestInvalid("a message must be a JSON object") from exc
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "ping":
            await self._outgoing.put({"type": "pong"})
        elif kind == "unsubscribe":
            await self._unsubscribe(str(message.get("id", "")))
        elif kind == "subscribe":
            await self._try(self._asked(message), str(message.get("id", ""))[:100])
        else:
            raise RequestInvalid("`type` must be subscribe, unsubscribe or ping")

    async def _asked(self, message: Mapping[str, Any]) -> None:
        await self._subscribe(parse_subscribe(message))

    async def _subscribe(self, wanted: Subscribe) -> None:
        if wanted.id in self._streams:
            raise RequestInvalid(f"there is a subscription {wanted.id!r} already: use another id")
        if len(self._streams) >= MOST_SUBSCRIPTIONS:
            raise RequestInvalid(f"{MOST_SUBSCRIPTIONS} subscriptions are the maximum: end one")
        stream = self._desk.hub.subscribe(
            after=wanted.after, where=wanted.where(), follow=wanted.follow
        )
        await stream.__aenter__()
        notice = {"type": "subscribed", "subscription": wanted.id, "after": stream.position or ""}
        await self._outgoing.put(notice)
        # `subscribed` is queued before the task begins, so it comes before the first event.
        self._sent[wanted.id] = stream.position or ""
        task = asyncio.create_task(self._follow(wanted.id, stream, follow=wanted.follow))
        task.add_done_callback(self._note)
        self._streams[wanted.id] = stream, task

    async def _unsubscribe(self, name: str) -> None:
        found = self._streams.pop(name, None)
        if found is None:
            raise RequestInvalid(f"there is no subscription {name[:100]!r}")
        stream, task = found
        stream.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        notice = {"type": "unsubscribed", "subscription": name, "after": self._sent.pop(name)}
        await self._outgoing.put(notice)

    async def _follow(self, name: str, stream: EventStream, *, follow: bool) -> None:
        async for found in stream:
            message = await self._message(found)
            await self._outgoing.put({**message, "subscription": name})
            # Only after it was queued: `unsubscribed` must not name an event that the client never
            # gets.
            self._sent[name] = found.id
        end = "closing" if follow else "done"
        notice = {"type": end, "subscription": name, "after": stream.position or ""}
        await self._outgoing.put(notice)
        # Only after it was queued: meanwhile `run` must know the task, to cancel it.
        if not follow:
            self._streams.pop(name, None)
            self._sent.pop(name, None)

    def _note(self, task: asyncio.Task[None]) -> None:
        """Close the connection if a subscription fails, so that the client reconnects."""
        if not task.cancelled() and task.exception() is not None and not self._broken.done():
            _log.warning("a subscription broke: %s", task.exception())
            self._broken.set_exception(_Over(_RESTARTING, "continue with the last id"))

    async def _message(self, found: HubEvent) -> dict[str, Any]:
        live = await live_event(found, self._desk.inbox)
        message = {"type": live.type, "id": live.id, "data": live.data}
        return message if live.type == "event" else {**message, "event": live.event.to_json()}

    async def _write(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    message = await self._outgoing.get()
            except TimeoutError:
                message = {"type": "heartbeat"}
            try:
                async with asyncio.timeout(_SEND_S):
                    await self._socket.send_text(dumps(message))
            except TimeoutError:
                # The queue is bounded: without a limit, a client that does not read would block
                # its subscriptions for ever.
                raise _Over(_TOO_SLOW, "the client does not read") from None
            if message["type"] == "closing":
                raise _Over(_RESTARTING, "the server is stopping; continue with the last id")


def parse_subscribe(message: Mapping[str, Any]) -> Subscribe:
    """Parse the subscription of a client. Raises `RequestInvalid`."""
    try:
        return Subscribe.model_validate(dict(message))
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RequestInvalid(f"{where or 'subscribe'}: {first['msg']}") from exc


def from_query(query: Mapping[str, str]) -> Subscribe | None:
    """The subscription in the query of the address; `None` if there is none. Raises
    `RequestInvalid`."""
    given = dict(query)
    if not given:
        return None
    message: dict[str, Any] = {
        name: value.split(",") if name in ("sessions", "agents", "types") else value
        for name, value in given.items()
    }
    if "inbox" in given:
        message["inbox"] = given["inbox"].lower() in ("1", "true", "yes")
    return parse_subscribe(message)


router = APIRouter(tags=["events"])

_reads = needs("read")


@router.websocket("/events")
@takes_query(*IN_QUERY)
async def watch_events(socket: WebSocket) -> None:
    """Stream live events of all sessions, of an agent, or of the inbox.

    A caller without the scope `read` is refused before the connection is accepted.
    """
    streams: Streams = socket.app.state.streams
    try:
        desk = await _reads(HTTPConnection(socket.scope))
        first = from_query(socket.query_params)
        leave = streams.admit("websocket")
    except EkidenError as exc:
        await socket.send_denial_response(response_of(exc))
        return
    try:
        await socket.accept(subprotocol=subprotocol_of(socket))
        heartbeat_s: float = socket.app.state.config.heartbeat_s
        await LiveConnection(socket, desk, heartbeat_s=heartbeat_s).run(first)
    finally:
        leave()
