"""Server-sent events: a run or a session while it happens.

The id of an event is its number in its session. A client that reconnects sends the last id
(`Last-Event-ID`) and gets exactly the events after it, from any server of the store. Deltas have no
id: they are not stored, and the event that follows has their whole text.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Header
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from ekiden.core.conversation.model import ModelDelta
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import RequestInvalid, TooManyRequests
from ekiden.core.runs import ACTIVE
from ekiden.core.values import dumps
from ekiden.hub.tails import Shown
from ekiden.project.service import TenantService
from ekiden.server.metrics import Metrics, Transport
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


def parse_last_id(value: str | None) -> int | None:
    """The number in `Last-Event-ID`. Raises `RequestInvalid` if it is not an event id."""
    if value is None or value == "":
        return None
    number = value.rpartition("/")[2]
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise RequestInvalid(f"Last-Event-ID {value[:40]!r} is not an event id")
    return int(number)


def encoded(shown: Shown | Inner) -> bytes:
    """An event or a delta as bytes; those of inner sessions have a depth, and no id."""
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


async def run_stream(
    desk: TenantService,
    run_id: str,
    watching: AsyncGenerator[Shown | Inner | None, None],
    *,
    through_waits: bool,
) -> AsyncGenerator[bytes, None]:
    """The run as `Runs.watch` shows it, and finally an event `end` with the run.

    A stream without `end` was cut off: the client reconnects with the last id.
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
        _log.warning("the stream of %s was cut off: %s", run_id, exc.code)
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
        _log.warning("the stream of %s was cut off: %s", session_id, exc.code)


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
        """`TooManyRequests` at the limit: for callers that start something before the stream."""
        if self.open >= self._most:
            raise TooManyRequests("too many streams are open", retry_after_s=5)

    def _left(self) -> None:
        self.open -= 1

    def response(
        self, stream: AsyncGenerator[bytes, None], headers: dict[str, str] | None = None
    ) -> EventSourceResponse:
        """The stream as a response."""
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
"""The description of streams in the OpenAPI document: OpenAPI 3.1 describes one event."""


def stream_responses(description: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a streaming route in the OpenAPI document."""
    return {200: {"description": description, "content": EVENT_STREAM}}
