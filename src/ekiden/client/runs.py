"""Runs at a server and their events, read from a stream of server-sent events.

Streams survive a lost connection without gaps or repeats. The id of an event is its number. After a
lost connection the client requests the stream from the last number it has, and drops events that it
has seen. Text deltas have no number; a delta lost in between is not repeated, because the event
that follows has the full text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Unpack
from uuid import uuid4

from ekiden.api import runs as api
from ekiden.api.methods.called import AsyncStream
from ekiden.api.runs import Shown
from ekiden.client.errors import ServerProblem, ServerUnavailable
from ekiden.client.wire import Wire, part
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.documents import from_json
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import ServerStopping, TooManyRequests
from ekiden.core.events import Event
from ekiden.core.runs import Run, RunStarted
from ekiden.core.values import loads

MAX_MESSAGE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SseMessage:
    """One message of a stream."""

    event: str
    data: str
    id: str | None = None
    """`None` if this message has none of its own."""


class SseReader:
    """Takes chunks as they come and gives whole messages; half a message at the end is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0
        """Of the data of the message that is being read."""

    def feed(self, chunk: bytes) -> Iterator[SseMessage]:
        """The messages that are complete with this chunk; `ServerProblem` for an endless one."""
        buffer = self._rest + chunk
        # A lone carriage return at the end may be the first half of a line break.
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
            return self._done()
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

    def _done(self) -> SseMessage | None:
        event, data, number = self._event or "message", self._data, self._id
        self._event, self._data, self._id, self._size = "", [], None, 0
        if not data:
            return None
        return SseMessage(event=event, data="\n".join(data), id=number)


_IN_ITS_WAY = (ServerUnavailable, ServerStopping, TooManyRequests)


@dataclass(slots=True)
class Followed:
    """A stream, and how far it was read."""

    wire: Wire
    path: str | None
    """Where it is asked for; `None` as long as the run is not begun."""
    after: int | None = None
    """The number of the last event that arrived."""
    body: Any = None
    """With what the run is begun."""
    key: str = ""
    params: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> AsyncGenerator[Shown, None]:
        """All of it; `ServerUnavailable` when the server stays away."""
        failures, began, is_begun = 0, 0.0, False
        clock = asyncio.get_running_loop()
        while True:
            try:
                async with aclosing(self._once()) as shown:
                    async for each in shown:
                        failures, is_begun = 0, True
                        yield each
                        if isinstance(each, Run):
                            return
                error: EkidenError = ServerUnavailable(self.wire.url, "the stream ended too early")
            except _IN_ITS_WAY as exc:
                error = exc
            failures += 1
            if failures == 1:
                began = clock.time()
            is_tried = not is_begun or clock.time() - began >= self.wire.manners.reconnect_s
            if failures > self.wire.manners.retries and is_tried:
                raise error
            await asyncio.sleep(self.wire.manners.pause_s(failures, error))

    async def _once(self) -> AsyncGenerator[Shown, None]:
        if self.path is None:
            opened = self.wire.stream(
                "POST", "/runs", body=self.body, headers={"Idempotency-Key": self.key}
            )
        else:
            headers = {} if self.after is None else {"Last-Event-ID": str(self.after)}
            opened = self.wire.stream("GET", self.path, params=self.params, headers=headers)
        async with opened as answer:
            if (begun := self._learn(answer.headers)) is not None:
                yield begun
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                return  # The run was begun by an earlier try, whose stream is gone.
            async for message in _messages(answer.aiter_bytes()):
                shown = self._shown(message)
                if shown is not None:
                    yield shown

    def _learn(self, headers: Mapping[str, str]) -> RunStarted | None:
        """What the run is called, from the answer that began it."""
        run_id = headers.get("X-Ekiden-Run", "")
        if self.path is not None or not run_id:
            return None
        self.path = f"/runs/{part(run_id)}/events"
        return RunStarted(run_id=run_id, session_id=run_id.rpartition(":")[0])

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
                    return run
                case "error":
                    raise ServerProblem(data["code"], 200, data["detail"])
                case _ if message.id is None:
                    return None  # A sign of life, or something newer than this client.
                case _:
                    return Event.from_json(data)
        except (ValueError, KeyError, TypeError) as exc:
            raise ServerProblem(
                "client.problem", 200, f"the stream cannot be read: {type(exc).__name__}"
            ) from exc


def follow(
    wire: Wire, path: str, *, after: int | None = None, params: Mapping[str, str] | None = None
) -> AsyncGenerator[Shown, None]:
    """The stream at `path`, from after the event of this number."""
    return Followed(wire, path, after=after, params=params or {}).read()


def begin(wire: Wire, body: Any) -> AsyncGenerator[Shown, None]:
    """A run that is begun now, once, however often the connection breaks."""
    return Followed(wire, None, body=body, key=uuid4().hex).read()


async def _messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[SseMessage]:
    reader = SseReader()
    async for chunk in chunks:
        for message in reader.feed(chunk):
            yield message


class RemoteRuns(api.RunsApi):
    """See `Runs`; streams survive cut connections."""

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
        return AsyncStream(begin(self.wire, body))

    def follow(
        self, run_id: str, *, after: int | None = None, until: api.Until = "pause"
    ) -> AsyncStream[api.Shown]:
        path = f"/runs/{part(run_id)}/events"
        return AsyncStream(follow(self.wire, path, after=after, params={"until": until}))

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
        shown: Any = follow(self.wire, path, after=after)
        return AsyncStream(shown)


def _given(**values: Any) -> dict[str, Any]:
    """Without arguments that are `None`: the server has its own defaults for them."""
    return {name: value for name, value in values.items() if value is not None}
